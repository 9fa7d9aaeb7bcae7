"""The stages of a turn of an actor: it is loaded from its state, and what its calls leave behind is committed.

What runs is not yet durable; commits follow behind, each for all that has run meanwhile, and nothing leaves before
its commit (G7). Every commit depends on our epoch and moves it on, so one that is sent again, or comes late, is
refused; a worker that has lost the lease learns of it by its next one (G3).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.mailbox.departures import departures_of, is_departure
from holdfast.actors.mailbox.post import halted
from holdfast.actors.mailbox.queue import ELSEWHERE, HELD_UP, Delivery
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
from holdfast.actors.turn.aftermath import Aftermath
from holdfast.actors.turn.commit import begin_commit, commit, commit_under_way
from holdfast.actors.turn.entity import REFUSED, ActorEntity, Loaded, refuse_overtaken_caller
from holdfast.actors.turn.failure import after_deaths
from holdfast.actors.turn.look_ahead import unanswered
from holdfast.actors.turn.make_room import make_room
from holdfast.actors.turn.perform import perform
from holdfast.actors.turn.performed import Version, writes_of
from holdfast.clock import elapsed_seconds
from holdfast.coordination.arrived import arrived_next
from holdfast.coordination.inbox import INBOX_PREFIX, NEVER_WOKEN
from holdfast.coordination.lease import Closed, Fenced, Held
from holdfast.errors import Refused, StoreUnusable
from holdfast.items import ABSENT, Item, Put, place
from holdfast.kernel.host import settled
from holdfast.kernel.outcomes import AGAIN, Blocked, Ended, Idle, Left, LeftBehind, Next, Released, Rest
from holdfast.kernel.ownership import block, lease_until, ours
from holdfast.kernel.runtime import Runtime
from holdfast.persist import write_until_known

if TYPE_CHECKING:
    from holdfast.kernel.entity import Unloaded
    from holdfast.kernel.host import Host


class ActorStages(Struct, frozen=True, gc=False):
    """The stages of every actor of one worker."""

    runtime: Runtime
    claimable: tuple[str, ...] = (*CLAIMABLE, DELETED)
    """A deleted one begins again; or its owner died before it released it."""
    running: str = RUNNING

    def ahead(self, _entity: ActorEntity, _host: Host, /) -> Ended | None:
        """See ``Stages``."""
        return None

    async def may_claim(self, entity: ActorEntity, host: Host, /) -> bool:
        """See ``Stages``."""
        since_left = host.clock.now_ms() - entity.left_at
        entity.hot = since_left <= host.patience_seconds(0.0) * 1000
        return True

    async def refused(self, entity: ActorEntity, claim: Held | Closed, host: Host, /) -> Item | None:
        """See ``Stages``: create a new actor if it is called in this process."""
        match claim:
            case Closed(None) if entity.queue.calls:
                return await begin(entity, host)
            case Closed(there) if there is not None and there.status == HALTED:
                entity.queue.refuse_calls(halted(entity.partition))
            case _:
                pass
        return None

    async def resume(self, entity: ActorEntity, host: Host, /) -> None:
        """See ``Stages``: commit what was left, so that the next call runs under a higher epoch (G3). A claim
        sees to that if the store refuses the commit.
        """
        if entity.unloaded is not None:  # it was created here, and has begun nothing
            return
        epoch = entity.epoch
        await commit(entity, self.runtime, host)
        if entity.epoch == epoch:
            entity.release()

    async def load(self, entity: ActorEntity, unloaded: Unloaded, _host: Host, /) -> None:
        """See ``Stages``."""
        try:
            load(entity, unloaded.head, taken_over=unloaded.taken_over)
        except Blocked:
            with suppress(StoreUnusable):  # no code at all can read it
                await depart_again(entity, decode_record(unloaded.head.body), self.runtime)
            raise
        assert entity.state is not None
        await depart_again(entity, entity.state.version.record, self.runtime)
        if unloaded.created:  # nothing was answered before
            entity.state.unanswered = {each.call.id for each in entity.queue.mail if each.call.known}
        entity.unloaded = None

    async def receive(self, entity: ActorEntity, _head: Item | None, host: Host, /) -> None:
        """See ``Stages``."""
        entity.queue.looks += 1
        if entity.hold.revision != NEVER_WOKEN:
            await read_inbox(entity, host)
        if entity.state is None:
            return
        entity.state.unanswered = await unanswered(entity, host.home.store)
        if entity.state.taken_over:  # its last owner may have died of what it did last
            entity.state.taken_over = False
            entity.queue.suspect(entity.state.version.record, host.clock.now_ms())

    async def run(self, entity: ActorEntity, host: Host, /) -> Next:
        """See ``Stages``."""
        more_runs, runs_on = await run_calls(entity, self.runtime, host), not (entity.halting or host.draining)
        entity.unread |= runs_on and entity.queue.runs_short
        if more_runs:
            if entity.unread:  # the head is read next, and a commit at that time would move its epoch on
                await commit(entity, self.runtime, host)
            return AGAIN
        stays_seconds = patience_seconds(entity, host)
        rest = None if stays_seconds else await rest_at_once(entity, host)
        await commit(entity, self.runtime, host, rest)
        if rest is not None and not entity.held:
            return Released(rest)
        runs_on = not (entity.halting or host.draining)
        if entity.departures.under_way:
            if runs_on:
                return Idle(entity.next_due(), busy=True)
            await entity.departures.settled()  # what has come meanwhile does not run
            return AGAIN
        if runs_on:
            return Idle(entity.next_due(), stays_seconds)
        if entity.unread or not entity.settled:
            return AGAIN
        return await self.rest(entity, host)

    async def rest(self, entity: ActorEntity, host: Host, /) -> Rest:
        """See ``Stages``."""
        await acknowledge(entity, host, besides=1)
        rest = await rest_of(entity, host)
        return replace(rest, others=entity.departures.acknowledgements())

    def left(self, entity: ActorEntity, left: Left, host: Host, /) -> None:
        """See ``Stages``. Calls that wait for one that takes none are sent elsewhere."""
        entity.left_at = host.clock.now_ms()
        if isinstance(left, Rest):
            entity.departures.acknowledged(left.others)
        if not (entity.halting or host.draining):
            settled(entity, left, host)
            return
        host.forget(entity)
        if isinstance(left, Rest) and isinstance(left.due_at, int):
            host.check_at(entity.partition, left.due_at)

    async def fenced(self, entity: ActorEntity, /) -> None:
        """See ``Stages``. The callers of what is being written hear what came of it."""
        await commit_under_way(entity)

    async def failed(self, entity: ActorEntity, error: Exception, host: Host, /) -> None:
        """See ``Stages``."""
        if isinstance(error, Blocked):
            await entity.departures.settled()
            await acknowledge(entity, host)
            await block(entity, str(error), host)
        else:
            await commit_under_way(entity)
            host.failed(entity, error)


# ── Load ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def begin(actor: ActorEntity, host: Host) -> Item | None:
    """Bring an actor into being with our lease in it."""
    until = lease_until(host.clock.now_ms(), host)
    head = Item(partition=actor.partition, status=RUNNING, owner=host.home.owner, lease_until=until, epoch=1)
    try:
        await write_until_known(host.home.store, Put(head, ABSENT), ours=lambda found: found == head)
    except Refused:
        return None
    return head


def load(actor: ActorEntity, head: Item, *, taken_over: bool = False) -> None:
    """Make the actor from its stored state, or as it begins."""
    kind = actor.kind
    try:
        if head.body:
            record = decode_record(head.body)
            instance = kind.load(record.state, record.schema)
        else:
            record = ActorRecord(schema=kind.schema, state=NOT_BEGUN)
            instance = kind.fresh()
        state = kind.encode(instance)
    except Exception as error:  # an upcaster is users' code
        actor.queue.refuse_calls(error)
        raise Blocked(str(error)) from error
    deleted = bool(head.body) and record.state == NOT_BEGUN
    version = Version(replace(record, schema=kind.schema), state, deleted=deleted)
    actor.state = Loaded(version, version, instance, taken_over=taken_over)


async def depart_again(actor: ActorEntity, record: ActorRecord, runtime: Runtime) -> None:
    """Deliver what the last owner has left, before anything newer. Also if there is no code for the actor's state."""
    if record.departing:
        actor.depart(await departures_of(actor.partition, runtime.home.store), runtime)


async def acknowledge(actor: ActorEntity, host: Host, *, besides: int = 0) -> None:
    """Delete entries whose delivery is confirmed, unless they fit into a write with a number of others. Each is deleted
    once and for good: it does not matter whether the actor is still ours.
    """
    bounds = host.home.bounds
    while gone := actor.departures.acknowledgements(None if bounds is None else bounds.writes):
        if besides and (bounds is None or len(gone) + besides <= bounds.writes):
            return
        await write_until_known(host.home.store, *gone, ours=lambda _there: True)
        actor.departures.acknowledged(gone)


async def read_inbox(actor: ActorEntity, host: Host) -> None:
    """Take in the next messages that are new. The rest is read when most of these have run: a look at all of many takes
    longer than they may wait.
    """
    queue = actor.queue
    found, queue.more = await arrived_next(host.home, actor.partition, INBOX_PREFIX, queue.known)
    for message in found:
        queue.add_message(message, host.clock.now_ms())


# ── Run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def run_calls(actor: ActorEntity, runtime: Runtime, host: Host) -> bool:
    """Run the calls that wait, one after another; others get their turn after a while. Answers whether there may be
    more to run before all of it is committed.
    """
    began = elapsed_seconds()
    while not (actor.lost or actor.uncommitted.phase is REFUSED or actor.halting or host.draining):
        delivery = actor.next(host.clock.now_ms())
        if delivery is None:
            return False
        if delivery.held_up:
            delivery.resolve(HELD_UP)
            continue
        suspect = delivery.place in actor.queue.suspects and not delivery.skips
        try:
            if suspect and not await attempt(delivery, actor, runtime, host):
                continue
            begin_commit(actor, runtime, host)  # what has run before need not wait for this one
            if not (delivery.call.chain and await refuse_overtaken(delivery, runtime)):
                await make_room(actor, runtime)
                performed = await perform(delivery, actor, runtime)
                ours(actor)  # else the method has ignored that it was cancelled, and its caller sends it elsewhere
                actor.apply(performed)
        except LeftBehind:
            raise  # it has failed already
        except BaseException:
            delivery.resolve(ELSEWHERE)  # it has left nothing behind, and is in no list any more
            raise
        actor.queue.suspects.discard(delivery.place)
        if suspect:
            return False
        if elapsed_seconds() - began > host.limits.slice_seconds:
            await asyncio.sleep(0)
            if actor.broken is not None or not actor.queue.has_plenty:
                return host.home.writes_are_paid  # each write is paid for, so what waits shares one
            began = elapsed_seconds()  # to look for more would be to read all of it again
    return False


async def refuse_overtaken(delivery: Delivery, runtime: Runtime) -> bool:
    """Refuse the call of an actor of this process that has a newer owner meanwhile; false if it is to be performed."""
    if delivery.answer is not None:
        try:
            await refuse_overtaken_caller(delivery.call, runtime)
        except Fenced as fenced:
            delivery.fail(fenced)
            return True
    return False


async def attempt(delivery: Delivery, actor: ActorEntity, runtime: Runtime, host: Host) -> bool:
    """Write down that a message or a timer is tried, before it is; false if it is not to be."""
    assert actor.state is not None
    before = actor.state.version
    verdict = after_deaths(delivery, before.failure_of(delivery.place), actor.kind.policy)
    begins = delivery.prepared = verdict is None
    found = Aftermath(delivery, before, actor.state.instance, actor.partition, actor.kind, runtime)
    actor.apply(found.begun() if verdict is None else found.given(verdict))
    version = actor.state.version
    await commit(actor, runtime, host)
    if not begins:
        actor.queue.suspects.discard(delivery.place)
    is_known = delivery.sort is None or delivery.sort in actor.queue.known
    return begins and is_known and actor.state.version is version  # else it comes again


# ── Leave ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def patience_seconds(actor: ActorEntity, host: Host) -> float:
    """How long an actor keeps its lease when nothing is to be done: a hot one stays, so its next call finds it warm.

    Where each write is billed, one is hot that is called again a moment after its release.
    """
    if actor.passing or (host.home.writes_are_paid and not actor.hot):
        return 0.0
    return host.patience_seconds(0.0)


async def rest_at_once(actor: ActorEntity, host: Host) -> Rest | None:
    """How to leave an actor that is not to be kept with the commit of what has run, if nothing waits."""
    await commit_under_way(actor)
    left = actor.uncommitted
    if not left.finished or left.phase is REFUSED or actor.halting or host.draining:
        return None
    due = actor.next_due()
    if actor.departures.under_way or any(is_departure(each, actor.partition) for each in writes_of(left.finished)):
        return None  # it is released when that is delivered
    if actor.has_news or actor.queue.waits or (due is not None and due <= host.clock.now_ms()):
        return None
    if actor.passing and any(place(each)[1].startswith(PARKED_PREFIX) for each in writes_of(left.finished)):
        return None  # whether it is to be forgotten is known when that is in the store
    return await rest_of(actor, host)


async def rest_of(actor: ActorEntity, host: Host) -> Rest:
    """How an actor is left when nothing more is done for it here."""
    assert actor.state is not None
    due = actor.next_due()
    if actor.halting:
        return Rest(HALTED, None, None)
    if actor.queue.waits:
        return Rest(READY, due if due is not None else host.clock.now_ms(), None)
    if actor.state.version.deleted and not actor.queue.has_later:
        return Rest(DELETED, due, None)
    return Rest(SUSPENDED, due, await expiry(actor, host) if due is None else None)


async def expiry(actor: ActorEntity, host: Host) -> int | None:
    """When an actor that is only there for a while may be forgotten; not while a message of it is parked."""
    if not actor.passing:
        return None
    assert actor.state is not None
    if actor.state.version.record.parked_up_to:  # one was, and may lie there
        parked = await host.home.store.query(actor.partition, prefix=PARKED_PREFIX, limit=1)
        if parked.items:
            return None
    return host.clock.now_ms() + actor.kind.policy.reply_window_ms
