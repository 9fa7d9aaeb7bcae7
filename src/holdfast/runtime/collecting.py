"""How often Python's garbage collector looks for cycles in a process that runs a worker.

An execution consists of about a hundred objects, which reference counting frees. Python looks for cycles after every
700 new objects (3.13: 2,000). That is about 6 % of the instructions of a workflow with one step.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

OLDER: Final = (0, 1_000)
"""After more young collections than this comes a middle one, and after more middle ones a full one. A middle one looks
at what has outlived the young ones since the last: where thousands of executions stay in memory that is nearly
everything, and the loop stands still for as long. In place of every second young one, it looks at the least that it
can look at: twice as much, and that is the least in sum.
"""


@contextmanager
def collected_after(objects: int) -> Generator[None]:
    """Collect garbage once per ``objects`` new objects, until the block ends. 0 changes nothing.

    If the collector is off, or runs as rarely already, nothing changes either: the process has its reasons.
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


@contextmanager
def frozen(objects: int) -> Generator[None]:
    """Leave all objects that exist now out of collections, until the block ends. 0 changes nothing.

    It is for a process that is a worker and nothing else: what it has loaded stays until it ends.
    """
    if not gc.isenabled() or not objects:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
