"""Places that a body names itself: what is asked for there is known by the place, whichever task asks for it.

Without one, an operation is known by the path of tasks that asks for it. That follows the code, which is what people
who write a body by hand want. A body that interprets something, a state machine say, has better names: the operations
of the second visit of the state Pay are ``Pay#1/charge#0``, ``Pay#1/sleep#0``, however the interpreter is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from holdfast import ids
from holdfast.errors import InvalidInput
from holdfast.replay.loop import DurableLoop
from holdfast.replay.tasks import DurableTask

LONGEST_PATH_BYTES: Final = 500
"""With the longest name of an operation behind it, what it identifies still fits into a sort key of DynamoDB."""

_ESCAPED: Final = {ord(mark): f"%{ord(mark):02X}" for mark in "%/#[]!"}


def escaped(name: str) -> str:
    """A name as one part of a place: different names stay different, and none looks like the structure of a place.

    >>> escaped("Pay"), escaped("Pay/All#1")
    ('Pay', 'Pay%2FAll%231')
    """
    return name.translate(_ESCAPED)


@contextmanager
def place(name: str) -> Generator[None]:
    """Know what is asked for inside the block, in this task and in those that it starts, by ``name``.

    ``name`` is the whole path, without a slash at its end. A run has each place once, and a body that names places
    names the first one before it asks for anything: so no two operations can have one identity, and one idempotency
    key (G10). Raises ``InvalidInput`` otherwise.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if not isinstance(loop, DurableLoop) or not isinstance(task, DurableTask):
        raise InvalidInput(f"{name!r} names a place in a workflow body, and is used outside of one")
    loop.refuse_in_query("a place")
    if loop.claimed is None and task.has_named:
        raise InvalidInput(
            f"the body asked for something before it named its first place, {name!r}: name one for that too"
        )
    with task.at(loop.claim(_bounded(name) + "/")):
        yield


def _bounded(name: str) -> str:
    return name if len(name.encode()) <= LONGEST_PATH_BYTES else f"~{ids.fingerprint(name.encode())}"
