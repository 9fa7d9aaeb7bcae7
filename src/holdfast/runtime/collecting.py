"""How often Python's garbage collector looks for cycles in a process that has a worker.

An execution is some hundred objects that end by themselves. Python looks after every 700 new ones (3.13: 2,000) whether
cycles are among them; of a workflow with one step that is about 6 % of the instructions.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

OLDER: Final = (20, 50)
"""So many young collections come before a middle one, and so many middle ones before one of everything."""


@contextmanager
def collected_after(objects: int) -> Generator[None]:
    """Let ``objects`` new ones come between two looks, until the block ends; 0 changes nothing.

    Nor is anything changed where the collector is off, or looks as seldom already: the process has its reasons.
    """
    before = gc.get_threshold()
    if not gc.isenabled() or not 0 < before[0] < objects:
        yield
        return
    gc.set_threshold(objects, *OLDER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
