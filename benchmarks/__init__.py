"""Holdfast and its best peer, measured side by side: ``python -m benchmarks --help``.

Read it from the top: ``__main__`` (what is asked), ``plan`` (what a case is), ``groups`` (the cases themselves),
``rounds`` (how they are measured), ``report`` (how they are shown). ``peers`` holds what runs in a peer's environment.
"""
