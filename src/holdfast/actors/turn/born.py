"""An actor that comes into being with its first messages and with our lease, in one write: no claim, and no read.

What it holds is known without a look: nothing is in its inbox but what this write has put there, and no request of it
was answered before. What comes later moves its revision on, and is read before it is released.

Where a process may stop, or hear no answer:

- Before the write: nothing is there. Its sender delivers again.
- At the write, and its answer is lost: nothing is there, or all, under a lease without a turn. Its sender delivers
  again, finds its messages, and the claim behind that takes over our own lease.
- After the write: the lease lapses, and a sweep finds the head, which is due from its first moment (G1).
- An hour before the write: the actor is there, and refuses it; or was forgotten, and the messages are as if sent now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.actors.record import RUNNING
from holdfast.actors.turn.entity import ActorEntity
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import ABSENT, Item, Put
from holdfast.kernel.ownership import lease_until
from holdfast.kernel.room import keep_room, leave_room

if TYPE_CHECKING:
    from holdfast.kernel.host import Host


async def begin_with(puts: Sequence[Put], partition: str, host: Host) -> bool:
    """Create an actor with these messages, as ours, and begin its turn. False if that was not done, as far as is known:
    it is there, or this process has no code or no room for it, or the store did not answer. Then deliver them.
    """
    if partition in host.entities or not keep_room(partition, host):
        return False
    try:
        head = _head(partition, host)
        await host.home.store.write(*puts, Put(head, ABSENT))
    except (Refused, StoreUnavailable):
        return False
    else:
        _take_up(head, [put.item for put in puts], host)
        return True
    finally:
        leave_room(partition, host)


def _head(partition: str, host: Host) -> Item:
    now = host.clock.now_ms()
    return Item(
        partition,
        revision=1,
        status=RUNNING,
        owner=host.home.owner,
        lease_until=lease_until(now, host),
        epoch=1,
        due_at=now,  # so that it is found if we die
    )


def _take_up(head: Item, messages: Sequence[Item], host: Host) -> None:
    """Begin the turn. If the answer took longer than the lease, another process may have begun one."""
    partition, now = head.partition, host.clock.now_ms()
    if partition in host.entities or host.draining or now >= (head.lease_until or 0):
        host.check(partition)
        return
    host.adopt(head)
    entity = host.entities[partition]
    assert isinstance(entity, ActorEntity)
    for message in messages:
        entity.queue.add_message(message, now)
