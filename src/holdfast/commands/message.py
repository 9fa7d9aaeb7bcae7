"""The commands about messages: publish an event, and repair the parked ones of actors and consumers."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw, Struct

from holdfast.actors.admin.handle import ActorHandle
from holdfast.actors.admin.listing import ParkedMessage, ParkedPage, find_parked, list_parked
from holdfast.actors.record import HIDDEN_MARK
from holdfast.codec import faults
from holdfast.codec.typed import codec_for
from holdfast.commands.arguments import LEFT_OUT
from holdfast.commands.context import Command, Context
from holdfast.commands.letters import LETTERS, drop, find_letter, letters_of, send_back, with_letters
from holdfast.commands.named import Named
from holdfast.commands.right import Right
from holdfast.errors import InvalidInput, UnknownName
from holdfast.messaging.declarations import publish
from holdfast.messaging.publishing import Publishes

LISTED: Final = 100


class Published(Struct, frozen=True):
    """An event that was published, and the id by which it is handled once, if it has one."""

    event: str
    id: str | None


class Publish(Command[Published], frozen=True, tag="publish"):
    """Publish an event that a consumer of the app has declared; one with an id is handled once (G5)."""

    event: str
    value: Raw = Raw(b"{}")
    id: str | None = None

    def check(self, context: Context) -> None:
        self._event(context.app)

    async def perform(self, context: Context) -> Published:
        event, id = self._event(context.app), context.id_of(self.id)
        await publish(context.app, event, id=id)
        return Published(self.event, id)

    def _event(self, app: Publishes) -> Any:
        kind: Any = app.registry.events.get(self.event)
        if kind is None:
            known = ", ".join(sorted(app.registry.events)) or "none"
            raise UnknownName(f"no consumer here has declared an event {self.event!r}; there are: {known}")
        try:
            return codec_for(kind).decode(bytes(self.value).strip() or b"{}", f"event {self.event}")
        except InvalidInput as error:
            if error.__cause__ is None:
                raise
            complaint = faults.complaint_of(error.__cause__)
            at = f" at {complaint.path}" if complaint.path else ""
            raise InvalidInput(f"event {self.event} does not fit its type{at}: {complaint.text}") from None


class ListParked(Command[ParkedPage], frozen=True, tag="dlq-list"):
    """List the parked messages, in the order they were sent, a page at a time; then the dead letters of queues."""

    actor: str | None = None
    beginning: str = ""
    after: str | None = None
    limit: int = LISTED

    async def perform(self, context: Context) -> ParkedPage:
        runtime = context.app.runtime()
        page = ParkedPage((), None)
        if self.after != LETTERS:
            page = await list_parked(runtime, self.actor, beginning=self.beginning, after=self.after, limit=self.limit)
        return await with_letters(page, runtime, self.actor, beginning=self.beginning, limit=self.limit)


class ShowParked(Command[ParkedMessage], frozen=True, tag="dlq-show"):
    """Look at one parked message, by its id in the home."""

    id: str

    async def perform(self, context: Context) -> ParkedMessage:
        runtime = context.app.runtime()
        if (letters := letters_of(runtime, self.id)) is not None:
            return await find_letter(letters, self.id)
        return await find_parked(runtime, self.id)


class Redrive(Command[ParkedMessage], frozen=True, tag="dlq-redrive"):
    """Put a parked message back into the inbox of its actor, or a dead letter back into its queue, with other arguments
    if given.

    The arguments of a consumer's message are its event.
    """

    id: str
    args: Raw = LEFT_OUT

    def __str__(self) -> str:
        return self.id

    async def perform(self, context: Context) -> ParkedMessage:
        runtime = context.app.runtime()
        if (letters := letters_of(runtime, self.id)) is not None:
            return await send_back(letters, self.id, self.args)
        parked = await find_parked(runtime, self.id)
        args = None if self.args is LEFT_OUT else _arguments(parked, self.args)
        await _handle(context, parked).unpark(parked.message.place, args=args)
        return parked


class DropParked(Command[ParkedMessage], frozen=True, tag="dlq-discard"):
    """Drop a parked message, for good."""

    id: str

    def __str__(self) -> str:
        return self.id

    async def perform(self, context: Context) -> ParkedMessage:
        runtime = context.app.runtime()
        if (letters := letters_of(runtime, self.id)) is not None:
            return await drop(letters, self.id)
        parked = await find_parked(runtime, self.id)
        await _handle(context, parked).discard(parked.message.place)
        return parked


def _handle(context: Context, parked: ParkedMessage) -> ActorHandle:
    return ActorHandle(parked.actor, parked.key, context.app.runtime)


def _arguments(parked: ParkedMessage, given: Raw) -> Any:
    arguments: dict[str, Any] = parked.message.args
    is_event = parked.actor.startswith(HIDDEN_MARK) and "event" in arguments
    return arguments | {"event": given} if is_event else given


COMMANDS: Final[tuple[Named, ...]] = (
    Named("publish", Publish, Right.WRITE, needs_code=True),
    Named("dlq list", ListParked, Right.CONTROL),
    Named("dlq show", ShowParked, Right.CONTROL),
    Named("dlq redrive", Redrive, Right.CONTROL, audited=True),
    Named("dlq discard", DropParked, Right.CONTROL, audited=True),
)
