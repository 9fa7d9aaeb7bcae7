"""What an execution waits for, as its head holds it: its owner writes it with what it writes anyway (G14)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

SIGNAL: Final = "signal"
CALLBACK: Final = "callback"
TIMER: Final = "timer"
STEP: Final = "step"
CHILD: Final = "child"
EXECUTION: Final = "execution"
ACTOR: Final = "actor"
SEND: Final = "send"

KINDS: Final = (SIGNAL, CALLBACK, TIMER, STEP, CHILD, EXECUTION, ACTOR, SEND)
"""What a body can wait for. ``execution`` is one that it did not start, ``actor`` the reply of one, ``send`` a start, a
message or an event on its way to the store.
"""

MOST_WAITS: Final = 10
MOST_UNTAKEN: Final = 10

_SHORT: Final = {
    "kind": "k",
    "op": "o",
    "until": "u",
    "place": "p",
    "id": "i",
    "attempt": "a",
    "most": "m",
    "began": "b",
    "beat": "h",
    "error": "e",
    "arguments": "g",
    "limit": "l",
    "waits": "w",
    "more": "n",
    "untaken": "t",
    "epoch": "f",
}
"""The names of the fields in the store, where every head has them."""


class Wait(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename=_SHORT):
    """One thing that a body waits for. Times are milliseconds, 0 if there is none.

    ``op`` is the identity of the operation, of a signal its name. ``until`` is when a timer is due, when a step is
    tried again, or when the body gives up waiting. ``place`` is the line of the user's code. ``id`` is the other
    execution's, or the actor's key.

    Of a step: ``attempt`` is the one that runs, or that comes next, of ``most``; ``began`` is when it did, 0 if it
    waits for a thread or its next attempt; ``beat`` is the last heartbeat, ``error`` how the attempt before failed,
    ``arguments`` are JSON that may be cut off, without secrets and tokens. ``limit`` names the limits of one that has
    not begun, and needs permits.
    """

    kind: str
    op: str
    until: int = 0
    place: str = ""
    id: str = ""
    attempt: int = 0
    most: int = 0
    began: int = 0
    beat: int = 0
    error: str = ""
    arguments: str = ""
    limit: str = ""


class Waits(Struct, frozen=True, gc=False, omit_defaults=True, rename=_SHORT):
    """Where a body stands. ``more`` is how many waits are left out here, ``untaken`` the names of signals that have
    come and were not taken. ``epoch`` is that of the owner who holds the execution and has told it meanwhile.
    """

    waits: tuple[Wait, ...] = ()
    more: int = 0
    untaken: tuple[str, ...] = ()
    epoch: int = 0
