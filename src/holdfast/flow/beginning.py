"""An execution begins that has a slot: its claim is refused unless it waits under the epoch that the slot is for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.errors import Refused, StoreUnavailable
from holdfast.flow.record import QUEUED, decode_gate
from holdfast.items import UNOWNED, AllOf, EpochIs, Item, StatusIn, Update
from holdfast.kernel.host import serving
from holdfast.kernel.ownership import lease_until
from holdfast.kernel.wake import wake

if TYPE_CHECKING:
    from holdfast.flow.gate import Gate
    from holdfast.kernel.host import Host

RUNNING: Final = "RUNNING"


async def begin(partition: str, epoch: int, gate: Gate, host: Host) -> None:
    """Begin an execution here, if there is room and code for it, else in another process.

    Whatever becomes of the write, the slot stays until the execution's head says that it is over.
    """
    if serving(host, partition) is None or not host.has_room:
        wake(partition, host.home, host)
        return
    host.creations.expect(partition)
    host.creations.kept.add(partition)
    try:
        (head,) = await host.home.store.write(_claim(partition, epoch, host))
    except Refused:
        gate.has_changed(partition)
    except StoreUnavailable:
        host.check_at(partition, host.clock.now_ms() + int(host.limits.retry_turn_seconds * 1000))
    else:
        assert head is not None
        host.telemetry.emit("claimed", partition=partition, takeover=False)
        watch(partition, gate, host)
        if host.clock.now_ms() < (head.lease_until or 0):
            host.adopt(head, created=False)
    finally:
        if host.creations.over(partition):
            host.check(partition)


async def begin_with_slot(partition: str, gate: str, host: Host) -> Item | None:
    """Claim an execution that waits, if the head of its queue has a slot for it. ``None`` if it has none any more."""
    queue = await host.home.store.get(gate)
    slot = None if queue is None else decode_gate(queue.body).held.get(partition)
    if slot is None:
        return None
    try:
        (head,) = await host.home.store.write(_claim(partition, slot.epoch, host))
    except Refused:
        return None
    return head


def watch(partition: str, gate: Gate, host: Host) -> None:
    """Have the gate look when this process ends or leaves the execution."""
    host.watchers.add(partition, gate.partition, partial(_noticed, partition, gate))


def _noticed(partition: str, gate: Gate, _conclusion: object) -> None:
    gate.has_changed(partition)


def _claim(partition: str, epoch: int, host: Host) -> Update:
    now = host.clock.now_ms()
    return Update(
        partition=partition,
        when=AllOf((UNOWNED, StatusIn((QUEUED,)), EpochIs(epoch))),
        status=RUNNING,
        owner=host.home.owner,
        lease_until=lease_until(now, host),
        due_at=now,  # so that it is found if we die
        add_epoch=1,
        load=True,
    )
