"""Dead letters of queues as parked messages: they are listed, shown, redriven and discarded with those of the home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw

from holdfast.actors.admin.handle import Message
from holdfast.actors.admin.listing import ParkedMessage, ParkedPage
from holdfast.actors.record import HIDDEN_MARK
from holdfast.clock import moment
from holdfast.commands.arguments import LEFT_OUT
from holdfast.errors import InvalidInput, NotFound
from holdfast.failure import ErrorRecord
from holdfast.letters import DeadLetter, DeadLetters

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

LETTERS: Final = "~queues"
"""Where a list goes on behind the last parked message of the home."""

REASON: Final = ErrorRecord(type="DeadLetter", message="it was delivered as often as its queue allows")


async def with_letters(
    page: ParkedPage, runtime: Runtime, actor: str | None, *, beginning: str, limit: int
) -> ParkedPage:
    """A page of parked messages with the dead letters of queues behind the last one."""
    letters = runtime.home.dead_letters
    if letters is None or page.after is not None:
        return page
    room = limit - len(page.items)
    if room <= 0:
        return ParkedPage(page.items, LETTERS)
    looked = await letters.look(room)
    found = map(as_parked, looked.letters)
    asked_for = (each for each in found if actor in (None, each.actor) and each.key.startswith(beginning))
    return ParkedPage((*page.items, *asked_for), None, looked.notes)


def letters_of(runtime: Runtime, id: str) -> DeadLetters | None:
    """The queues' dead letters, if the id is one of theirs."""
    letters = runtime.home.dead_letters
    return letters if letters is not None and letters.names(id) else None


async def find_letter(letters: DeadLetters, id: str) -> ParkedMessage:
    """One dead letter. Raises ``NotFound``."""
    return as_parked(_there(await letters.find(id), id))


async def send_back(letters: DeadLetters, id: str, args: Raw) -> ParkedMessage:
    """Send a dead letter to its queue again, with other arguments if given. Raises ``NotFound``, and ``InvalidInput``
    for arguments of what is no call of an actor.
    """
    body = None if args is LEFT_OUT else _with_args(_there(await letters.find(id), id), args)
    return as_parked(_there(await letters.send_back(id, body), id))


async def drop(letters: DeadLetters, id: str) -> ParkedMessage:
    """Delete a dead letter. Raises ``NotFound``."""
    return as_parked(_there(await letters.drop(id), id))


def as_parked(letter: DeadLetter) -> ParkedMessage:
    """A dead letter in the form of a parked message. That of a queue of commands belongs to no actor: its name begins
    as those of hidden ones do.
    """
    known = _decoded(letter.body) or {"body": letter.body}
    actor = str(known.get("actor") or "") if letter.is_ordered else ""
    method = known.get("method") if letter.is_ordered else known.get("holdfast") or known.get("detail-type")
    return ParkedMessage(
        letter.id,
        actor or HIDDEN_MARK + letter.queue,
        letter.group,
        Message(
            place=letter.queue,
            id=letter.id.partition(":")[2],
            method=str(method or "?"),
            args=known.get("args", {}) if actor else known,
            sent_at=moment(letter.sent_at),
            not_before=None,
            error=REASON,
        ),
    )


def _there(letter: DeadLetter | None, id: str) -> DeadLetter:
    if letter is None:
        raise NotFound(
            f"no dead letter {id!r} is there now. If it is behind ten others of its group, or another process looks at "
            "it, it shows itself later"
        )
    return letter


def _with_args(letter: DeadLetter, args: Raw) -> str:
    body = _decoded(letter.body)
    if not letter.is_ordered or body is None:
        raise InvalidInput(f"{letter.id} is no call of an actor: it cannot be given other arguments")
    return msgspec.json.encode({**body, "args": args}).decode()


def _decoded(body: str) -> dict[str, Any] | None:
    """The object that a body is; ``None`` if it is none."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
