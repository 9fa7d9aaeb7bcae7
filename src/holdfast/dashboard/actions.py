"""What a person can do by a form: one row for each action, and the command that it makes of a form.

An action adds nothing to its command. ``on`` is what it acts on: an execution is ``(workflow, id)``, an actor
``(actor, key)``, a message in an actor's inbox ``(actor, key, place)``, a dead letter ``(id,)``, a
queue and a limit ``(app/name,)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from holdfast import ids
from holdfast.codec import jsontext
from holdfast.commands import NAMED, Command
from holdfast.commands.actor import DeleteActor, Discard, Park, ResumeActor, Unpark
from holdfast.commands.arguments import LEFT_OUT
from holdfast.commands.callback import AnswerCallback
from holdfast.commands.execution import (
    Cancel,
    Delete,
    Fork,
    Move,
    Pause,
    Resume,
    Retry,
    RetryNow,
    Signal,
    Terminate,
)
from holdfast.commands.limit import NUMBERS as LIMIT_NUMBERS
from holdfast.commands.limit import ChangeLimit, ResetLimit
from holdfast.commands.message import DropParked, Redrive
from holdfast.commands.numbers import number_in
from holdfast.commands.queue import NUMBERS as QUEUE_NUMBERS
from holdfast.commands.queue import ChangeQueue, PauseQueue, PurgeQueue, ResetQueue, ResumeQueue
from holdfast.dashboard.signals import signal_value
from holdfast.errors import InvalidInput
from holdfast.http.api import plain_json
from holdfast.workflows.record import BLOCKED, CANCELLED, CLAIMABLE, ENDED, OPEN, PAUSED

if TYPE_CHECKING:
    from holdfast.commands.right import Right
    from holdfast.dashboard.forms import Form
    from holdfast.dashboard.visit import Visit

On = tuple[str, ...]
Make = Callable[["Visit", On, "Form"], Awaitable[Command[Any]]]

LONGEST_REASON_CHARACTERS: Final = 1_000
LONGEST_NAME_CHARACTERS: Final = 500


class Action(Struct, frozen=True, kw_only=True):
    """One action. ``asks`` is what a page asks before it is done, for actions that cannot be taken back. ``asks_for``
    is a field of its form: one without it, such as that of a list, leads to a page that asks for it. An action is
    offered while what it acts on has one of these ``statuses``, or always.
    """

    label: str
    of: str
    command: type[Command[Any]]
    make: Make
    done: str
    asks: str = ""
    asks_for: str = ""
    statuses: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How forms name it."""
        return NAMED[self.command].name

    @property
    def right(self) -> Right | None:
        """The right that it needs."""
        return NAMED[self.command].right

    @property
    def is_asked_about(self) -> bool:
        """Whether a page asks something before it is done, if the form does not say it."""
        return bool(self.asks or self.asks_for)

    def is_offered(self, visit: Visit, status: str) -> bool:
        """Whether a page shows it for something that has this status."""
        return visit.may(self.right) and (not self.statuses or status in self.statuses)


def request_id(form: Form, on: On, *what: str) -> str:
    """The id of a request: made with the form, so that a form that is sent twice is one request. Each button of a form
    is a request of its own, and so is a form that says something else, such as one that a browser went back to.
    """
    return ids.derive("form", form.one("form"), form.one("action"), *on, *what)


def text_of(form: Form, name: str, longest: int) -> str:
    """A text of a form. Raises ``InvalidInput`` if it is too long."""
    text = form.one(name).strip()
    if len(text) > longest:
        raise InvalidInput(f"the {name} must be at most {longest} characters, got {len(text)}")
    return text


def _plain(command: Callable[..., Command[Any]]) -> Make:
    """A command that needs only what it acts on."""

    async def make(_visit: Visit, on: On, _form: Form) -> Command[Any]:
        return command(*on)

    return make


async def _cancel(_visit: Visit, on: On, form: Form) -> Command[Any]:
    return Cancel(on[0], on[1], text_of(form, "reason", LONGEST_REASON_CHARACTERS), request_id(form, on))


async def _terminate(_visit: Visit, on: On, form: Form) -> Command[Any]:
    return Terminate(on[0], on[1], text_of(form, "reason", LONGEST_REASON_CHARACTERS) or "terminated")


async def _signal(visit: Visit, on: On, form: Form) -> Command[Any]:
    name = text_of(form, "name", LONGEST_NAME_CHARACTERS)
    if not name:
        raise InvalidInput("a signal must have a name")
    value = await signal_value(visit, on[0], on[1], name, form)
    return Signal(on[0], on[1], name, value, request_id(form, on, name, jsontext.encode(value).decode()))


async def _answer(_visit: Visit, on: On, form: Form) -> Command[Any]:
    operation, error = (
        text_of(form, "operation", LONGEST_NAME_CHARACTERS),
        text_of(form, "error", LONGEST_REASON_CHARACTERS),
    )
    text = form.one("value").strip()
    value = plain_json(text.encode(), "the answer of the callback") if text else None
    return AnswerCallback(on[0], on[1], operation, value, error or None)


async def _fork(visit: Visit, on: On, form: Form) -> Command[Any]:
    chosen = text_of(form, "new_id", LONGEST_NAME_CHARACTERS)
    before = text_of(form, "before", LONGEST_NAME_CHARACTERS)
    made = f"{visit.tenant}fork-{request_id(form, on, before)[:16]}"
    return Fork(on[0], on[1], chosen or made, before or None)


def _arguments(form: Form) -> Raw:
    """New arguments for a message, or none."""
    text = form.one("args").strip()
    if not text:
        return LEFT_OUT
    return Raw(msgspec.json.encode(plain_json(text.encode(), "the new arguments")))


async def _unpark(_visit: Visit, on: On, form: Form) -> Command[Any]:
    return Unpark(on[0], on[1], on[2], _arguments(form))


async def _redrive(_visit: Visit, on: On, form: Form) -> Command[Any]:
    return Redrive(on[0], _arguments(form))


def _numbers(form: Form, names: tuple[str, ...]) -> dict[str, Any]:
    """The numbers of a form that are not empty. Raises ``InvalidInput``."""
    texts = {name: text_of(form, name, LONGEST_NAME_CHARACTERS) for name in names}
    try:
        return {name: number_in(name, text) for name, text in texts.items() if text}
    except ValueError:
        told = f"{names[0]}: a whole number; a rate is COUNT/TIME, such as 100/1m; or none"
        raise InvalidInput(told) from None


async def _change_queue(_visit: Visit, on: On, form: Form) -> Command[Any]:
    return ChangeQueue(on[0], **_numbers(form, QUEUE_NUMBERS))


async def _change_limit(_visit: Visit, on: On, form: Form) -> Command[Any]:
    return ChangeLimit(on[0], **_numbers(form, LIMIT_NUMBERS))


_PARK_ASKS: Final = "The message that it has halted at is parked, and the actor goes on with the next one."
_DISCARD_ASKS: Final = "The message is dropped for good: it is never handled."
_CANCELLABLE: Final = tuple(status for status in OPEN)
_RETRIABLE: Final = tuple(status for status in ENDED if status not in {"COMPLETED", CANCELLED})

ACTIONS: Final = (
    Action(label="Retry", of="execution", command=Retry, make=_plain(Retry), done="continues from what failed",
           statuses=(*_RETRIABLE, CANCELLED)),
    Action(label="Retry now", of="execution", command=RetryNow, make=_plain(RetryNow),
           done="makes its next attempts now", statuses=CLAIMABLE),
    Action(label="Resume", of="execution", command=Resume, make=_plain(Resume), done="goes on",
           statuses=(PAUSED, BLOCKED)),
    Action(label="Pause", of="execution", command=Pause, make=_plain(Pause), done="starts nothing new",
           statuses=CLAIMABLE),
    Action(label="Signal", of="execution", command=Signal, make=_signal, done="has the signal",
           asks_for="name", statuses=OPEN),
    Action(label="Answer the callback", of="execution", command=AnswerCallback, make=_answer,
           done="has its answer", asks_for="operation", statuses=OPEN),
    Action(label="Cancel", of="execution", command=Cancel, make=_cancel, done="is asked to stop",
           asks="It is asked to stop: its clean-up and its sagas run first.", asks_for="reason",
           statuses=_CANCELLABLE),
    Action(label="Terminate", of="execution", command=Terminate, make=_terminate, done="is ended",
           asks="It ends at once, without clean-up or compensation.", asks_for="reason", statuses=OPEN),
    Action(label="Move to this code", of="execution", command=Move, make=_plain(Move),
           done="is pinned to the code of this app",
           asks="It goes on with the code of this app, whatever code it was pinned to.", statuses=OPEN),
    Action(label="Fork", of="execution", command=Fork, make=_fork, done="is forked", asks_for="before"),
    Action(label="Delete", of="execution", command=Delete, make=_plain(Delete), done="is deleted",
           asks="It is deleted with its history and its result. That cannot be taken back.", statuses=ENDED),
    Action(label="Resume", of="actor", command=ResumeActor, make=_plain(ResumeActor),
           done="tries its message again", statuses=("HALTED",)),
    Action(label="Park its message", of="actor", command=Park, make=_plain(Park), done="goes on with the next message",
           asks=_PARK_ASKS, statuses=("HALTED",)),
    Action(label="Delete", of="actor", command=DeleteActor, make=_plain(DeleteActor), done="is deleted",
           asks="Its state and its timers go, after the messages before. That cannot be taken back."),
    Action(label="Put back", of="parked", command=Unpark, make=_unpark, done="is in the inbox again"),
    Action(label="Discard", of="parked", command=Discard, make=_plain(Discard), done="is dropped", asks=_DISCARD_ASKS),
    Action(label="Redrive", of="letter", command=Redrive, make=_redrive, done="is in its inbox again"),
    Action(label="Discard", of="letter", command=DropParked, make=_plain(DropParked), done="is dropped",
           asks=_DISCARD_ASKS),
    Action(label="Pause", of="queue", command=PauseQueue, make=_plain(PauseQueue), done="lets nothing begin",
           statuses=("OPEN",)),
    Action(label="Resume", of="queue", command=ResumeQueue, make=_plain(ResumeQueue), done="lets others begin again",
           statuses=("PAUSED",)),
    Action(label="Change", of="queue", command=ChangeQueue, make=_change_queue, done="has these numbers",
           asks_for="limit"),
    Action(label="Reset", of="queue", command=ResetQueue, make=_plain(ResetQueue), done="has the numbers of the code"),
    Action(label="Purge", of="queue", command=PurgeQueue, make=_plain(PurgeQueue), done="ends what waits",
           asks="All that waits in it now ends as cancelled. What has begun goes on. That cannot be taken back."),
    Action(label="Change", of="limit", command=ChangeLimit, make=_change_limit, done="has these numbers",
           asks_for="permits"),
    Action(label="Reset", of="limit", command=ResetLimit, make=_plain(ResetLimit), done="has the numbers of the code"),
)  # fmt: skip
"""All actions, in the order in which pages offer them."""

ACTION_NAMED: Final = {each.name: each for each in ACTIONS}


def offered(visit: Visit, of: str, status: str) -> list[Action]:
    """The actions that a page offers for one thing of this status."""
    return [each for each in ACTIONS if each.of == of and each.is_offered(visit, status)]


def offered_on_many(visit: Visit, of: str) -> list[Action]:
    """The actions that a list offers for what is selected."""
    return [each for each in ACTIONS if each.of == of and visit.may(each.right)]
