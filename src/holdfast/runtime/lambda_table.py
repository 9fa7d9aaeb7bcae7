"""What a function on AWS Lambda can be asked to do by name: the bodies of messages and of direct invocations.

They are the commands of ``holdfast.commands`` as JSON, with their tags as ``"holdfast"``, and two of the function's
own: a wake-up (tag ``ring``) and ``sweep``. The page "On AWS Lambda" lists their fields and answers.

A repeat is recognised by its id. A command without one gets the id of its message or invocation, which stays the same
when AWS delivers it again.
"""

from __future__ import annotations

import json
from typing import Any, Final, Union, cast

import msgspec
from msgspec import Raw, Struct

from holdfast.commands import COMMANDS, Command, Context, perform_for
from holdfast.commands.actor import Call, Sent
from holdfast.commands.execution import OnExecution, Result, Start
from holdfast.commands.shown import shown
from holdfast.items import Item
from holdfast.kernel.host import holds
from holdfast.messaging.publishing import Publishes
from holdfast.ports import WakeUp
from holdfast.workflows.finding import head_of
from holdfast.workflows.record import NO_VALUE, decode_result, partition_of
from holdfast.workflows.status import status_of


class Sweep(Struct, frozen=True, tag_field="holdfast", tag="sweep", forbid_unknown_fields=True):
    """Check what is due and got no wake-up. ``parts`` is how many parts the index of what is due is to have; 0: as many
    as it has.
    """

    parts: int = 0


class CleanUp(Struct, frozen=True, tag_field="holdfast", tag="clean-up", forbid_unknown_fields=True):
    """Delete what is left over, as far as there is time."""


Order = Command[Any] | WakeUp | Sweep | CleanUp
"""What a function can be asked to do."""

LAMBDA: Final = "lambda"
"""Who has sent a command to a function, for the audit: the policy of the function decides who may."""

NOT_HERE: Final = frozenset({Result})
"""Commands that a function does not take. It would be billed for the wait, and ``status`` answers the result."""

TAKEN: Final = tuple(each.command for each in COMMANDS if each.command not in NOT_HERE)

_orders: Any = Union[(*TAKEN, WakeUp, Sweep, CleanUp)]
_decode = msgspec.json.Decoder(_orders).decode


def order_of(data: bytes | str) -> Order:
    """What a message or an event asks for. Raises ``msgspec.DecodeError``."""
    return cast("Order", _decode(data))


def place_of(order: Order, own_id: str) -> str | None:
    """The entity whose turn an order leads to, if there is one."""
    match order:
        case Start(workflow=workflow, id=id):
            return partition_of(workflow, id or own_id)
        case OnExecution():
            return partition_of(order.workflow, order.id)
        case WakeUp(partition):
            return partition
        case _:
            return None  # a call reports to its caller, and a sent message is in its inbox


async def begin(command: Command[Any], own_id: str, app: Publishes) -> Any:
    """Perform a command. A started execution that is not worked on here is checked: a repeat may come because its first
    turn was not finished.
    """
    answer = await perform_for(LAMBDA, command, Context(app, own_id=own_id))
    if isinstance(command, Start):
        runtime, partition = app.runtime(), answer.partition
        is_due = (answer.due_at or 0) <= runtime.clock.now_ms()
        if runtime.host is not None and is_due and not holds(runtime.host, partition):
            runtime.host.check(partition)
    return answer


async def finish(command: Command[Any], answer: Any, app: Publishes) -> Any:
    """The answer as JSON. For ``Start`` it is the status of the execution now that all work is idle."""
    match answer:
        case Item():
            moved = isinstance(command, Start)
            return _standing(await head_of(app.runtime(), answer.partition) if moved else answer)
        case Raw():
            value = json.loads(bytes(answer))
            return value if isinstance(command, Call) else shown(value)
        case Sent(id):
            return {"id": id}
        case _:
            return shown(answer)


def _standing(head: Item) -> dict[str, Any]:
    status = status_of(head)
    told: dict[str, Any] = {"workflow": status.workflow, "id": status.id, "status": status.status}
    told["error"] = status.error
    if status.blocked is not None:
        told["blocked"] = status.blocked
    result = decode_result(head.body).result
    return told if result == NO_VALUE else told | {"result": json.loads(bytes(result))}
