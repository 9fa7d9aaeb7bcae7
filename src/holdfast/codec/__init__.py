"""Typed JSON: values by their type hints, arguments by their signatures, proven to come back unchanged (G12).

Start with ``typed``; ``signature`` builds on it. The other modules serve these two.
"""
