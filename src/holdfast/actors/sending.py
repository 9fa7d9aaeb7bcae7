"""Sending: a durable, one-way, ordered message; from inside an actor it leaves with the commit or not at all (G5)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, overload

from msgspec import Raw, Struct

from holdfast import ids
from holdfast.actors.address import check_request_id
from holdfast.actors.calling.from_workflow import send_from_body
from holdfast.actors.mailbox.post import post, post_with, wake_actor, withdraw
from holdfast.actors.record import TAKEN, Call, describe_partition
from holdfast.actors.reference import BoundMethod
from holdfast.duration import Duration, milliseconds
from holdfast.errors import InvalidInput
from holdfast.kernel.identity import BY_CONTENT
from holdfast.kernel.runtime import Runtime
from holdfast.kernel.unit import current_unit
from holdfast.replay.loop import running_activation
from holdfast.tracing import here

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
P = ParamSpec("P")
Answer = Coroutine[Any, Any, Any]


class Sent(Struct, frozen=True):
    """A message that was sent. ``id`` is its request id: a message of the same id again is not applied again.

    ``numbered``: it is delivered after the commit of its sender.
    """

    id: str
    partition: str
    sort: str
    runtime: Runtime
    numbered: bool = False

    def __repr__(self) -> str:
        return f"<Sent {self.id!r} to {describe_partition(self.partition)}>"

    async def cancel(self) -> bool:
        """Take the message back; false if it was applied, or is being applied, or is still to leave.

        One that an actor has sent on a home where writes are billed may come again from a process that was stopped. It
        can be taken back once its receiver has noted it: then it waits for its time.
        """
        place = self.sort + TAKEN if self.numbered else self.sort
        was_waiting = await withdraw(self.partition, place, self.runtime)
        if was_waiting:
            wake_actor(self.partition, self.runtime)
        return was_waiting


# As with ``Workflow.start``: a ParamSpec takes no keyword arguments next to its own, hence one signature without
# options, and one with options for each number of positional arguments.
# fmt: off
@overload
async def send(method: Callable[P, Answer], /, *args: P.args, **kwargs: P.kwargs) -> Sent | None: ...
@overload
async def send(method: Callable[[], Answer], /, *,
               delay: Duration | None = ..., request_id: str | None = ...) -> Sent | None: ...
@overload
async def send(method: Callable[[A], Answer], a: A, /, *,
               delay: Duration | None = ..., request_id: str | None = ...) -> Sent | None: ...
@overload
async def send(method: Callable[[A, B], Answer], a: A, b: B, /, *,
               delay: Duration | None = ..., request_id: str | None = ...) -> Sent | None: ...
@overload
async def send(method: Callable[[A, B, C], Answer], a: A, b: B, c: C, /, *,
               delay: Duration | None = ..., request_id: str | None = ...) -> Sent | None: ...
@overload
async def send(method: Callable[[A, B, C, D], Answer], a: A, b: B, c: C, d: D, /, *,
               delay: Duration | None = ..., request_id: str | None = ...) -> Sent | None: ...
@overload
async def send(method: Callable[[A, B, C, D, E], Answer], a: A, b: B, c: C, d: D, e: E, /, *,
               delay: Duration | None = ..., request_id: str | None = ...) -> Sent | None: ...
@overload
async def send(method: Callable[[A, B, C, D, E, F], Answer], a: A, b: B, c: C, d: D, e: E, f: F, /, *,
               delay: Duration | None = ..., request_id: str | None = ...) -> Sent | None: ...
@overload
async def send(  # type: ignore[overload-cannot-match]  # it does: options next to keywords are nothing of a ParamSpec
               method: Callable[..., Answer], /, *, delay: Duration | None = ..., request_id: str | None = ...,
               **kwargs: Any) -> Sent | None: ...
# fmt: on
async def send(  # type: ignore[misc]  # a method may have parameters of these names, to be given by position
    method: Callable[..., Answer],
    /,
    *args: Any,
    delay: Duration | None = None,
    request_id: str | None = None,
    **kwargs: Any,
) -> Sent | None:
    """Send a message to an actor: ``await hf.send(Cart.at("u1").add, "sku-9", delay="5m")``.

    Durable when this returns; inside an actor's method it is durable with the method's commit, and gone with a
    rollback. Messages of one sender arrive in the order sent (G6), each is applied once (G5), a failing one is tried
    again and parked in the end. With ``delay`` it arrives later, and ``cancel()`` of what is answered takes it back.
    Inside a workflow body it is recorded, and nothing is answered. Raises ``MailboxFull``.
    """
    if not isinstance(method, BoundMethod):
        raise InvalidInput(f"hf.send takes a method of an actor's address, such as Cart.at('u1').add, not {method!r}")
    if method.method.reads:
        raise InvalidInput(f"{method!r} only reads: sending it would do nothing")
    reference = method.reference
    delay_ms = 0 if delay is None else milliseconds(delay)
    activation = running_activation()
    if activation is not None:
        data = method.method.signature.bind(args, kwargs)
        await send_from_body(activation, reference, method.method, data, delay_ms)
        return None
    runtime = reference.kind.connect()
    data = method.method.signature.bind(args, kwargs, limit_bytes=runtime.limit_bytes)
    unit, now = current_unit.get(), runtime.clock.now_ms()
    given = request_id if request_id is not None else reference.request_id
    if given is not None:
        check_request_id(given)
    call = Call(
        id=given or ids.new_ordered_id(now),
        method=method.method.name,
        args=Raw(data),
        known=unit is None or given is not None,
        named=given is not None,
        not_before=now + delay_ms if delay_ms else 0,
        sent_at=now,
        naming=BY_CONTENT,
        trace=here(),
    )
    if unit is None:
        sort = await post(reference.kind, reference.partition, call, runtime)
    else:
        with unit.waiting():
            sort = await post_with(unit, reference.kind, reference.partition, call, runtime)
    numbered = unit is not None and unit.departs(reference.partition)
    return Sent(call.id, reference.partition, sort, runtime, numbered)
