"""What a function on AWS Lambda may be asked to do by name: the bodies of messages and of direct invocations.

| ``"holdfast"`` | fields (those in brackets may be missing) | answers |
|---|---|---|
| ``start`` | workflow, [input], [id], [tags], [timeout], [delay], [at] | the status, and the result if it has ended |
| ``status`` | workflow, id | the same |
| ``signal`` | workflow, id, name, [value], [signal_id] | nothing |
| ``cancel``, ``terminate`` | workflow, id, [reason] | nothing |
| ``pause``, ``resume`` | workflow, id | nothing |
| ``retry``, ``retry-now`` | workflow, id | nothing |
| ``delete`` | workflow, id | nothing |
| ``fork`` | workflow, id, [new_id], [before] | the new execution's workflow and id |
| ``move`` | workflow, id | nothing: it is pinned to the code that was called |
| ``call`` | actor, key, method, [args], [request_id] | the result |
| ``send`` | actor, key, method, [args], [request_id] | the request id |
| ``ring`` | partition, [due_at] | nothing |
| ``sweep`` | | nothing |

Repeats are recognised by their ids. What comes without one gets that of the message, or of the invocation, which AWS
keeps when it delivers again.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw, Struct

from holdfast.actors.kind import shown_kind_named
from holdfast.actors.reference import BoundMethod, method_named
from holdfast.actors.sending import send
from holdfast.ports import Ring
from holdfast.runtime.controls import AnyControl, Control, StatusOf, control
from holdfast.workflows.awaiting import head_of
from holdfast.workflows.launch import launch
from holdfast.workflows.record import NO_VALUE, decode_result, partition_of
from holdfast.workflows.starting import start_options
from holdfast.workflows.status import status_of

if TYPE_CHECKING:
    from holdfast.codec.signature import Signature
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime
    from holdfast.messaging.arrivals import Letter
    from holdfast.registrations import Registrations
    from holdfast.workflows.handle import Handle

NO_ARGUMENTS = Raw(b"[]")


class Start(Struct, frozen=True, tag_field="holdfast", tag="start", forbid_unknown_fields=True):
    """Start an execution, or find the one that was started with this id and input (G1, G11)."""

    workflow: str
    input: Raw = NO_ARGUMENTS
    id: str | None = None
    tags: dict[str, str] = {}
    timeout: str | float | None = None
    delay: str | float | None = None
    at: datetime | None = None


class Call(Struct, frozen=True, tag_field="holdfast", tag="call", forbid_unknown_fields=True):
    """Call a method of an actor and wait for the reply."""

    actor: str
    key: str
    method: str
    args: Raw = NO_ARGUMENTS
    request_id: str | None = None


class Send(Struct, frozen=True, tag_field="holdfast", tag="send", forbid_unknown_fields=True):
    """Send a message to an actor, durably."""

    actor: str
    key: str
    method: str
    args: Raw = NO_ARGUMENTS
    request_id: str | None = None


class Sweep(Struct, frozen=True, tag_field="holdfast", tag="sweep", forbid_unknown_fields=True):
    """Find what nobody rang for."""


Command = Start | AnyControl | Call | Send | Ring | Sweep


class Commanded(Protocol):
    """The open app, as commands see it."""

    @property
    def registry(self) -> Registrations: ...

    def runtime(self) -> Runtime: ...

    def handle(self, workflow: str, id: str) -> Handle[Any]: ...

    async def take_from_bus(self, letter: Letter) -> None: ...


def place_of(command: Command, own_id: str) -> str | None:
    """The entity that a command is about, if it is about one."""
    match command:
        case Start(workflow, _, id):
            return partition_of(workflow, id or own_id)
        case Control():
            return partition_of(command.workflow, command.id)
        case Ring(partition):
            return partition
        case Call() | Send() | Sweep():
            return None  # a call tells its caller by itself, and a message that was sent is in its inbox


async def begin(command: Command, own_id: str, app: Commanded) -> Any:
    """Do what can be done at once; answers what ``finish`` turns into an answer when all is quiet."""
    match command:
        case Start():
            return await _start(command, own_id, app)
        case Control():
            return await control(command, app.handle(command.workflow, command.id), own_id)
        case Call(actor, key, method, args, request_id):
            bound = method_of(app, actor, key, method, request_id or own_id)
            return await call(bound, args)
        case Send(actor, key, method, args, request_id):
            bound = method_of(app, actor, key, method, None)
            positional, named = bound.method.signature.unbind(_parsed(bound.method.signature, args))
            sent = await send(bound, *positional, request_id=request_id or own_id, **named)
            return None if sent is None else {"id": sent.id}
        case Ring() | Sweep():
            pass
    return None


async def finish(command: Command, own_id: str, begun: Any, app: Commanded) -> Any:
    """The answer, as JSON."""
    match command:
        case Start(workflow, _, id):
            return await _told(workflow, id or own_id, app)
        case StatusOf(workflow, id):
            return await _told(workflow, id, app)
        case _:
            return begun


async def _start(command: Start, own_id: str, app: Commanded) -> None:
    workflow, runtime = app.registry.workflow(command.workflow), app.runtime()
    options = start_options(
        id=command.id or own_id, tags=command.tags, timeout=command.timeout, delay=command.delay, at=command.at
    )
    input = workflow.signature.parse(
        bytes(command.input), f"workflow {command.workflow!r}", limit_bytes=runtime.limit_bytes
    )
    now = runtime.clock.now_ms()
    order = options.order(input, now, new_id=own_id, tags={})
    head = await launch(runtime.home, runtime.host, workflow, order, runtime.clock)
    if runtime.host is not None and (head.due_at or 0) <= now:
        runtime.host.look(head.partition)  # whoever asks again may do so because its first turn was not finished


async def _told(workflow: str, id: str, app: Commanded) -> dict[str, Any]:
    app.registry.workflow(workflow)
    head: Item = await head_of(app.runtime(), partition_of(workflow, id))
    status = status_of(head)
    told: dict[str, Any] = {"workflow": workflow, "id": id, "status": status.status, "error": status.error}
    if status.blocked is not None:
        told["blocked"] = status.blocked
    result = decode_result(head.body).result
    return told if result == NO_VALUE else told | {"result": json.loads(bytes(result))}


async def call(bound: BoundMethod, args: Raw) -> Any:
    """The result of a call of an actor, as JSON."""
    signature = bound.method.signature
    positional, named = signature.unbind(_parsed(signature, args))
    return json.loads(signature.result.encode(await bound(*positional, **named)))


def method_of(app: Commanded, actor: str, key: str, method: str, request_id: str | None) -> BoundMethod:
    """A method of an actor that may be called from outside. Raises ``UnknownName`` that names those there are."""
    return method_named(shown_kind_named(app.registry.actors, actor), key, method, request_id=request_id)


def _parsed(signature: Signature, args: Raw) -> bytes:
    return signature.parse(bytes(args))
