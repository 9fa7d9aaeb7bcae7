"""``python -m holdfast.cli``: the command line without its console script."""

from __future__ import annotations

from holdfast.cli import main

if __name__ == "__main__":
    main()
