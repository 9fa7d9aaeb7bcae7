"""The commands about actors: call, send, look, and repair one that has stopped at a message."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec import Raw, Struct

from holdfast.actors.address import check_request_id
from holdfast.actors.admin.handle import DELETE_TIMEOUT, ActorStatus, Departing, Message
from holdfast.actors.admin.listing import ActorPage, list_actors
from holdfast.actors.record import CLAIMABLE, DELETED, HALTED
from holdfast.actors.reference import BoundMethod, method_named
from holdfast.actors.sending import send
from holdfast.commands.arguments import LEFT_OUT, NO_ARGUMENTS, arguments_of
from holdfast.commands.context import Command, Context
from holdfast.commands.named import Named
from holdfast.commands.right import Right
from holdfast.errors import InvalidInput
from holdfast.keys import check_limit

A = TypeVar("A")

LISTED: Final = 100
STATUSES: Final = (*CLAIMABLE, HALTED, DELETED)


class Sent(Struct, frozen=True):
    """A message that was sent: its id, and where it lies."""

    id: str
    place: str


class RequestStanding(Struct, frozen=True):
    """What became of a request: ``completed``, ``failed``, ``waiting``, ``parked`` or ``unknown``."""

    id: str
    status: str


class ActorShown(Struct, frozen=True):
    """An actor, the messages that wait for it, its parked ones, and what it has sent that may not be delivered yet."""

    status: ActorStatus
    waiting: tuple[Message, ...]
    parked: tuple[Message, ...]
    departures: tuple[Departing, ...] = ()


class Prepared(Struct, frozen=True):
    """A method of an actor, found, with arguments that fit."""

    bound: BoundMethod
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    async def reply(self) -> Raw:
        """Call it, and answer the result as JSON."""
        result = await self.bound(*self.args, **self.kwargs)
        return Raw(self.bound.method.signature.result.encode(result))


class OnMethod(Command[A], frozen=True):
    """What is about one method of one actor."""

    actor: str
    key: str
    method: str
    args: Raw = NO_ARGUMENTS
    request_id: str | None = None

    def check(self, context: Context) -> None:
        kind = context.names.kind(context.app, self.actor)
        bound = method_named(kind, self.key, self.method, request_id=self.request_id)
        arguments_of(bound.method.signature, self.args)

    def _prepared(self, context: Context, request_id: str | None, timeout: str | float | None) -> Prepared:
        kind = context.names.kind(context.app, self.actor)
        bound = method_named(kind, self.key, self.method, request_id=request_id, timeout=timeout)
        signature, limit_bytes = bound.method.signature, context.app.runtime().limit_bytes
        args, kwargs = signature.unbind(arguments_of(signature, self.args, limit_bytes))
        return Prepared(bound, args, kwargs)


class Call(OnMethod[Raw], frozen=True, tag="call"):
    """Call a method of an actor and wait for its reply: applied once for each request id (G5). Answers JSON."""

    timeout: str | float | None = None

    def prepared(self, context: Context) -> Prepared:
        """The call, checked, before it is made."""
        return self._prepared(context, context.id_of(self.request_id), self.timeout)

    async def perform(self, context: Context) -> Raw:
        return await self.prepared(context).reply()


class Send(OnMethod[Sent], frozen=True, tag="send"):
    """Send a message to an actor, durably, without waiting for it."""

    delay: str | float | None = None

    async def perform(self, context: Context) -> Sent:
        call = self._prepared(context, None, None)
        id = context.id_of(self.request_id)
        sent = await send(call.bound, *call.args, delay=self.delay, request_id=id, **call.kwargs)
        assert sent is not None, "only a workflow body gets no answer"
        return Sent(sent.id, sent.sort)


class ListActors(Command[ActorPage], frozen=True, tag="actor-list"):
    """List actors, newest first, a page at a time; deleted ones only by their status."""

    actor: str | None = None
    status: str | None = None
    beginning: str = ""
    after: str | None = None
    limit: int = LISTED
    scan: bool = False
    """Whether all that the home holds may be read, where that is billed."""

    async def perform(self, context: Context) -> ActorPage:
        if self.actor is not None:
            context.names.actor(context.app, self.actor)
        if self.status is not None and self.status not in STATUSES:
            raise InvalidInput(f"no status of actors is called {self.status!r}; there are: {', '.join(STATUSES)}")
        return await list_actors(
            context.app.runtime(),
            self.actor,
            status=self.status,
            beginning=self.beginning,
            after=self.after,
            limit=self.limit,
            scan=self.scan,
        )


class OnActor(Command[A], frozen=True):
    """What is about one actor."""

    actor: str
    key: str

    def __str__(self) -> str:
        return f"{self.actor} {self.key}"


class ShowActor(OnActor[ActorShown], frozen=True, tag="actor-show"):
    """Look at an actor: its state, its timers, and the first ``limit`` messages of each kind, or all (``None``)."""

    limit: int | None = LISTED

    async def perform(self, context: Context) -> ActorShown:
        if self.limit is not None:
            check_limit(self.limit)
        handle = context.actor(self.actor, self.key)
        status, waiting = await handle.status(), await handle.messages(limit=self.limit)
        parked = await handle.parked(limit=self.limit)
        return ActorShown(status, waiting, parked, await handle.departures(limit=self.limit))


class RequestStatus(OnActor[RequestStanding], frozen=True, tag="request-status"):
    """What became of a request to an actor."""

    request_id: str

    async def perform(self, context: Context) -> RequestStanding:
        handle = context.actor(self.actor, self.key)
        check_request_id(self.request_id)
        return RequestStanding(self.request_id, await handle.request_status(self.request_id))


class DeleteActor(OnActor[None], frozen=True, tag="actor-delete"):
    """End an actor, in its turn behind the calls before: its state and timers go."""

    timeout: str | float | None = DELETE_TIMEOUT

    def check(self, context: Context) -> None:
        context.names.kind(context.app, self.actor)

    async def perform(self, context: Context) -> None:
        await context.actor(self.actor, self.key).delete(timeout=self.timeout)


class Unpark(OnActor[None], frozen=True, tag="actor-unpark"):
    """Put a parked message back into the inbox, with other arguments if given."""

    place: str
    args: Raw = LEFT_OUT

    def __str__(self) -> str:
        return f"{self.actor} {self.key} {self.place}"

    async def perform(self, context: Context) -> None:
        args = None if self.args is LEFT_OUT else self.args
        await context.actor(self.actor, self.key).unpark(self.place, args=args)


class Discard(OnActor[None], frozen=True, tag="actor-discard"):
    """Drop a parked message, for good."""

    place: str

    def __str__(self) -> str:
        return f"{self.actor} {self.key} {self.place}"

    async def perform(self, context: Context) -> None:
        await context.actor(self.actor, self.key).discard(self.place)


class ResumeActor(OnActor[None], frozen=True, tag="actor-resume"):
    """Let an actor that has halted try its message again."""

    async def perform(self, context: Context) -> None:
        await context.actor(self.actor, self.key).resume()


class Park(OnActor[None], frozen=True, tag="actor-park"):
    """Park the message that an actor has halted at, and let it continue with the next."""

    async def perform(self, context: Context) -> None:
        await context.actor(self.actor, self.key).park()


COMMANDS: Final[tuple[Named, ...]] = (
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
)
