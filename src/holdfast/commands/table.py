"""All commands. Each is on every surface; ``tests/commands/test_surfaces.py`` has the exceptions, with reasons.

A new one is a class with ``perform``, a row here, a route in ``http.routes`` and a line in ``cli``. Lambda takes it as
it is.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from holdfast.commands.actor import (
    Call,
    DeleteActor,
    Discard,
    ListActors,
    Park,
    RequestStatus,
    ResumeActor,
    Send,
    ShowActor,
    Unpark,
)
from holdfast.commands.callback import Complete, Fail, Heartbeat
from holdfast.commands.context import Command
from holdfast.commands.execution import (
    Cancel,
    Delete,
    Fork,
    ListExecutions,
    Move,
    Pause,
    Query,
    ReadHistory,
    Result,
    Resume,
    Retry,
    RetryNow,
    Signal,
    Start,
    Status,
    Terminate,
)
from holdfast.commands.message import DropParked, ListParked, Publish, Redrive, ShowParked
from holdfast.commands.right import Right


class Named(Struct, frozen=True):
    """A command as people and the audit name it.

    ``right`` is what a caller over HTTP needs; ``None``: a token of its own lets it in. ``needs_code`` are those that
    run or read the app's code; the others work on a home whose code is elsewhere. What is ``audited`` leaves a row.
    """

    name: str
    command: type[Command[Any]]
    right: Right | None
    needs_code: bool = False
    audited: bool = False

    @property
    def tag(self) -> str:
        """How its JSON names it."""
        return str(self.command.__struct_config__.tag)


COMMANDS: Final = (
    Named("start", Start, Right.WRITE, needs_code=True),
    Named("status", Status, Right.READ),
    Named("result", Result, Right.READ),
    Named("list", ListExecutions, Right.READ),
    Named("history", ReadHistory, Right.READ),
    Named("query", Query, Right.READ, needs_code=True),
    Named("signal", Signal, Right.WRITE),
    Named("cancel", Cancel, Right.CONTROL, audited=True),
    Named("terminate", Terminate, Right.CONTROL, audited=True),
    Named("pause", Pause, Right.CONTROL, audited=True),
    Named("resume", Resume, Right.CONTROL, audited=True),
    Named("delete", Delete, Right.CONTROL, audited=True),
    Named("move", Move, Right.CONTROL, needs_code=True, audited=True),
    Named("retry", Retry, Right.CONTROL, needs_code=True, audited=True),
    Named("retry-now", RetryNow, Right.CONTROL, audited=True),
    Named("fork", Fork, Right.CONTROL, audited=True),
    Named("callback complete", Complete, None),
    Named("callback fail", Fail, None),
    Named("callback heartbeat", Heartbeat, None),
    Named("call", Call, Right.WRITE, needs_code=True),
    Named("send", Send, Right.WRITE, needs_code=True),
    Named("request status", RequestStatus, Right.READ),
    Named("actor list", ListActors, Right.CONTROL),
    Named("actor show", ShowActor, Right.CONTROL),
    Named("actor delete", DeleteActor, Right.CONTROL, needs_code=True, audited=True),
    Named("actor unpark", Unpark, Right.CONTROL, audited=True),
    Named("actor discard", Discard, Right.CONTROL, audited=True),
    Named("actor resume", ResumeActor, Right.CONTROL, audited=True),
    Named("actor park", Park, Right.CONTROL, audited=True),
    Named("publish", Publish, Right.WRITE, needs_code=True),
    Named("dlq list", ListParked, Right.CONTROL),
    Named("dlq show", ShowParked, Right.CONTROL),
    Named("dlq redrive", Redrive, Right.CONTROL, audited=True),
    Named("dlq discard", DropParked, Right.CONTROL, audited=True),
)

NAMED: Final = {each.command: each for each in COMMANDS}
