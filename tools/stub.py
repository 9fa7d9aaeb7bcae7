"""Writes what type checkers read of the package: ``python -m tools.stub >src/holdfast/__init__.pyi``."""

from __future__ import annotations

import sys

from holdfast import PACKAGES, PUBLIC_NAMES

HEAD = "# Written by `make stub` from the names in __init__.py.\n"


def stub() -> str:
    """The stub: an import of each public name from the module that defines it."""
    names = [(module, name) for module, names in sorted(PUBLIC_NAMES.items()) for name in sorted(names.split())]
    packages = "".join(f"from holdfast import {name} as {name}\n" for name in PACKAGES)
    return HEAD + packages + "".join(f"from holdfast.{module} import {name} as {name}\n" for module, name in names)


if __name__ == "__main__":
    sys.stdout.write(stub())
