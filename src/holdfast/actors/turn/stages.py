"""The turn of an actor: ``claim → load → receive → run → commit → settle``, top to bottom.

What runs is not yet durable; commits follow behind, each for all that has run meanwhile, and nothing leaves before
its commit (G7). Every commit depends on our epoch and moves it on, so one that is sent again, or comes late, is
refused; whoever has lost the lease finds out at his next one (G3).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.actors.mailbox.post import halted
from holdfast.actors.mailbox.queue import ELSEWHERE, Delivery
from holdfast.actors.record import (
    CLAIMABLE,
    DELETED,
    HALTED,
    NOT_BEGUN,
    PARKED_PREFIX,
    READY,
    RUNNING,
    SUSPENDED,
    ActorRecord,
    decode_record,
)
from holdfast.actors.turn.commit import Rest, begin_commit, commit, commit_under_way
from holdfast.actors.turn.entity import Resident, Version
from holdfast.actors.turn.failure import begun, deadly
from holdfast.actors.turn.perform import run_one
from holdfast.clock import elapsed_seconds
from holdfast.coordination.inbox import INBOX_PREFIX, UNRUNG
from holdfast.coordination.lease import Claimed, Closed, Fenced, Held
from holdfast.errors import Refused, StoreError
from holdfast.items import (
    ABSENT,
    Item,
    Put,
    Update,
    place,
)
from holdfast.kernel import ownership
from holdfast.kernel.model import Blocked, LeftBehind
from holdfast.kernel.ownership import block
from holdfast.persist import write_until_known

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime


async def turn(actor: Resident, runtime: Runtime, host: Host) -> None:
    """Work on one actor until nothing comes for a while, or it belongs to somebody else."""
    try:
        if not actor.held and not await claim(actor, host):
            return
        if not actor.loaded:
            load(actor)
        await commit(actor, runtime, host)  # what an earlier turn has left, if that was left behind
        while True:
            await receive(actor, host)
            if await run(actor, runtime, host):
                continue
            await commit_under_way(actor)
            rest = await rest_at_once(actor, host)
            await commit(actor, runtime, host, rest)
            if rest is not None and not actor.held:
                left(actor, rest.due_at, host)
                return
            if not await wait(actor, host) and await settle(actor, host):
                return
    except Fenced:
        await fenced(actor, host)
    except asyncio.CancelledError:
        if not actor.lost:
            raise
        await fenced(actor, host)  # `lose` has cancelled whatever ran
    except Blocked as blocked:
        actor.missed = False  # what has come by now waits until it is looked at again
        await block(actor, str(blocked), host)
    except StoreError as error:
        await commit_under_way(actor)
        host.failed(actor, error)


async def fenced(actor: Resident, host: Host) -> None:
    """The actor belongs to somebody else: forget it, and send those who call it there."""
    await commit_under_way(actor)
    host.telemetry.emit("fenced", partition=actor.partition)
    host.forget(actor)


# ── claim ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def claim(actor: Resident, host: Host) -> bool:
    """Become the owner, of a new actor too if somebody here calls it."""
    now = host.clock.now_ms()
    claimable = (*CLAIMABLE, DELETED)  # it begins anew; or its owner died before he let go of it
    match await ownership.claim(actor, host, claimable=claimable, running=RUNNING):
        case Claimed(item, takeover, _):
            if takeover or item.epoch != actor.epoch + 1:
                actor.committed = None
                actor.reset()
                actor.taken_over = takeover
            actor.hold(item)
            actor.hot = now - actor.left_at <= host.patience_seconds(0.0) * 1000
            return True
        case Closed(None) if actor.queue.calls:
            if await begin(actor, now + host.limits.lease_ms, host):
                return True
        case Closed(there) if there is not None and there.status == HALTED:
            actor.queue.refuse_calls(halted(actor.partition))
        case Held() | Closed():
            pass
    host.forget(actor)
    return False


async def begin(actor: Resident, until: int, host: Host) -> bool:
    """Bring an actor into being with our lease in it."""
    head = Item(partition=actor.partition, status=RUNNING, owner=host.home.owner, lease_until=until, epoch=1)
    try:
        await write_until_known(host.home.store, Put(head, ABSENT), ours=lambda found: found == head)
    except Refused:
        return False
    actor.hold(head)
    return True


# ── load ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def load(actor: Resident) -> None:
    """Make the actor from its stored state, or as it begins."""
    assert actor.head is not None
    kind = actor.kind
    try:
        if actor.head.body:
            record = decode_record(actor.head.body)
            actor.instance = kind.load(record.state, record.schema)
        else:
            record = ActorRecord(schema=kind.schema, state=NOT_BEGUN)
            actor.instance = kind.fresh()
        state = kind.encode(actor.instance)
    except Exception as error:  # an upcaster is users' code
        actor.queue.refuse_calls(error)
        raise Blocked(str(error)) from error
    deleted = bool(actor.head.body) and record.state == NOT_BEGUN
    actor.version = actor.committed = Version(replace(record, schema=kind.schema), state, deleted=deleted)
    actor.head = None


# ── receive ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def receive(actor: Resident, host: Host) -> None:
    """Look at the head and the inbox again if somebody rang. The head first: a later ring moves its revision on."""
    confirmed, actor.confirmed = actor.confirmed, False
    if not actor.unread:
        return
    actor.missed = actor.unread = False
    actor.queue.looks += 1
    if not confirmed:
        head = await host.home.store.get(actor.partition)
        if head is None or head.epoch != actor.epoch:
            raise Fenced(f"{actor.partition} has a newer owner")
        actor.revision = head.revision
    if actor.revision != UNRUNG:
        await read_inbox(actor, host)
    if actor.taken_over:  # its last owner may have died of what he did last
        actor.suspect(host.clock.now_ms())
        actor.taken_over = False


async def read_inbox(actor: Resident, host: Host) -> None:
    """Take in every message that is new."""
    after: str | None = None
    while True:
        page = await host.home.store.query(actor.partition, prefix=INBOX_PREFIX, after=after)
        for message in page.items:
            actor.queue.add_message(message, host.clock.now_ms())
        if (after := page.cursor) is None:
            return


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def run(actor: Resident, runtime: Runtime, host: Host) -> bool:
    """Run the calls that wait, one after another; others get their turn after a while. Answers whether there may be
    more to run before all of it is committed.
    """
    began = elapsed_seconds()
    while not (actor.lost or actor.redo or actor.halting or host.draining):
        delivery = actor.next(host.clock.now_ms())
        if delivery is None:
            return False
        suspect = delivery.place in actor.suspects and not delivery.skips
        try:
            if suspect and not await attempt(delivery, actor, runtime, host):
                continue
            begin_commit(actor, runtime, host)  # what has run before need not wait for this one
            await run_one(delivery, actor, runtime)
        except LeftBehind:
            raise  # it has failed already
        except BaseException:
            delivery.tell(ELSEWHERE)  # it has left nothing behind, and is in no list any more
            raise
        actor.suspects.discard(delivery.place)
        if suspect:
            return False
        if elapsed_seconds() - began > host.limits.slice_seconds:
            await asyncio.sleep(0)
            return host.home.writes_are_paid  # each write is paid for, so what waits shares one
    return False


async def attempt(delivery: Delivery, actor: Resident, runtime: Runtime, host: Host) -> bool:
    """Write down that a message or a timer is tried, before it is; false if it is not to be."""
    assert actor.version is not None
    given_up = deadly(delivery, actor.version, actor, runtime)
    begins, delivery.prepared = given_up is None, given_up is None
    actor.apply(begun(delivery, actor.version) if given_up is None else given_up)
    version = actor.version
    await commit(actor, runtime, host)
    if not begins:
        actor.suspects.discard(delivery.place)
    begun_anew = actor.version is not version or (delivery.sort is not None and delivery.sort not in actor.queue.known)
    return begins and not begun_anew  # else it comes again


# ── settle ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def wait(actor: Resident, host: Host) -> bool:
    """Wait for something to do; false if nothing comes for a while."""
    if actor.halting or host.draining:
        return actor.unread or not actor.settled
    now, due = host.clock.now_ms(), actor.next_due()
    near_seconds = None if due is None else max(0, due - now) / 1000
    linger = patience_seconds(actor, host)
    timeout = linger if near_seconds is None else min(near_seconds, linger)
    if await actor.woken(timeout) or not actor.settled:
        return True
    return near_seconds is not None and near_seconds <= linger


def patience_seconds(actor: Resident, host: Host) -> float:
    """How long an actor keeps its lease when nothing is to be done: a hot one stays, so its next call finds it warm.

    Where each write is billed, one is hot that is called again a moment after it was let go.
    """
    if actor.passing or (host.home.writes_are_paid and not actor.hot):
        return 0.0
    return host.patience_seconds(0.0)


async def rest_at_once(actor: Resident, host: Host) -> Rest | None:
    """How to leave the actor with the commit of what has run, if nothing waits and it is not to be kept."""
    if patience_seconds(actor, host) or not actor.finished or actor.redo or actor.halting or host.draining:
        return None
    due = actor.next_due()
    if actor.has_news or actor.queue.mail or (due is not None and due <= host.clock.now_ms()):
        return None
    writes = (place(write) for each in actor.finished for write in each.writes)
    if actor.passing and any(sort.startswith(PARKED_PREFIX) for _, sort in writes):
        return None  # whether it is to be forgotten is known when that is in the store
    return await rest_of(actor, host)


async def rest_of(actor: Resident, host: Host) -> Rest:
    """How an actor is left when nothing more is done for it here."""
    assert actor.version is not None
    due = actor.next_due()
    if actor.halting:
        return Rest(HALTED, None, None)
    if actor.queue.mail:
        return Rest(READY, due if due is not None else host.clock.now_ms(), None)
    if actor.version.deleted and not actor.queue.has_later:
        return Rest(DELETED, due, None)
    return Rest(SUSPENDED, due, await expiry(actor, host) if due is None else None)


def left(actor: Resident, due_at: int | None, host: Host) -> None:
    """It is let go of."""
    actor.held = False
    actor.left_at = host.clock.now_ms()
    if actor.halting or host.draining:
        host.forget(actor)
        if due_at is not None:
            host.look_at(actor.partition, due_at)
        return
    host.suspended(actor, due_at)


async def settle(actor: Resident, host: Host) -> bool:
    """Let go of the lease, and say when to look again. Refused if somebody rang meanwhile: then there is more to do."""
    rest = await rest_of(actor, host)
    update = Update(
        partition=actor.partition,
        when=ownership.unchanged(actor, host),
        owner=None,
        lease_until=None,
        due_at=rest.due_at,
        expires_at=rest.expires_at,
        status=rest.status,
    )
    if await ownership.release(actor, update, host=host) is not None:
        actor.look()
        return False
    left(actor, rest.due_at, host)
    return True


async def expiry(actor: Resident, host: Host) -> int | None:
    """When an actor that is only there for a while may be forgotten; not while a message of it is set aside."""
    if not actor.passing:
        return None
    parked = await host.home.store.query(actor.partition, prefix=PARKED_PREFIX, limit=1)
    return None if parked.items else host.clock.now_ms() + actor.kind.policy.reply_window_ms
