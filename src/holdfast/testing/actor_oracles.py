"""What must hold for actors at every write and at rest, under any faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.record import (
    BLOCKED,
    DELETED,
    DEPARTURE_PREFIX,
    HALTED,
    HIDDEN_MARK,
    NOT_BEGUN,
    PARKED_PREFIX,
    PARTITION_PREFIX,
    READY,
    REPLY_PREFIX,
    RUNNING,
    SUSPENDED,
    TAKEN,
    ActorRecord,
    Call,
    actor_of,
    decode_call,
    decode_parked,
    decode_record,
    decode_reply,
    next_timer,
)
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.items import HEAD, Item
from holdfast.testing.virtual_time import VirtualClock
from holdfast.workflows.record import PARTITION_PREFIX as EXECUTION_PREFIX

TRANSITIONS: Final[Mapping[str | None, frozenset[str]]] = {
    None: frozenset({READY, RUNNING, SUSPENDED}),  # by a message, by a call, by an optimistic call
    READY: frozenset(
        {RUNNING, SUSPENDED, BLOCKED, HALTED, DELETED}
    ),  # its owner may still hold it, like one that ended
    RUNNING: frozenset({READY, SUSPENDED, BLOCKED, HALTED, DELETED}),
    SUSPENDED: frozenset({RUNNING}),
    BLOCKED: frozenset({RUNNING}),
    HALTED: frozenset({READY}),
    DELETED: frozenset({READY, RUNNING, SUSPENDED}),
}
"""The statuses an actor may go to next. A status may always stay as it is."""

CLOCKS_APART_MS: Final = 60_000
"""The largest difference of two clocks in a simulation."""

RESTING: Final = frozenset({SUSPENDED, HALTED, DELETED})


class Change(Struct, frozen=True):
    """What a write did to one item: the item before and after (``None``: absent)."""

    before: Item | None
    after: Item | None

    @property
    def item(self) -> Item:
        """The item, as it is or, if it is gone, as it was."""
        item = self.after or self.before
        assert item is not None, "a write touches an item"
        return item


class ActorWatch:
    """Checks every write, with all its changes together, and reports what an engine that keeps its promises would not
    do.

    Where messages are ``posted``, they come first and the wake-up for them later, except for requests that may be sent
    again as other messages. Until then their sender has heard nothing, and their owner need not know of them.
    """

    def __init__(self, *, posted: bool = False) -> None:
        self.posted = posted
        self._unannounced: dict[str, set[str]] = {}
        self._arrived: dict[tuple[str, str], int] = {}
        self._applied: set[tuple[str, str]] = set()

    def is_unannounced(self, item: Item) -> bool:
        """Whether a message waits of which its owner need not know: its sender has died, and was not answered."""
        return item.sort in self._unannounced.get(item.partition, ())

    def look(self, changes: Sequence[Change], waiting: Mapping[str, Sequence[Item]]) -> Iterator[str]:
        """``waiting`` are the messages that wait in an entity that the write touched, and what it has sent."""
        inbox = {partition: _of_kind(INBOX_PREFIX, items) for partition, items in waiting.items()}
        heads = {each.item.partition: each for each in changes if each.item.sort == HEAD}
        for change in changes:
            item = change.item
            if not item.partition.startswith(PARTITION_PREFIX):
                continue
            head = heads.get(item.partition)
            told: Iterable[str] = ()
            if item.sort == HEAD:
                if _is_woken(change):
                    self._unannounced.pop(item.partition, None)
                unannounced = self._unannounced.get(item.partition, ())
                known = [each for each in inbox[item.partition] if each.sort not in unannounced]
                sent = _of_kind(DEPARTURE_PREFIX, waiting[item.partition])
                told = (*_of_head(change), *_uncovered(change.after, known, sent))
            elif item.sort.startswith(INBOX_PREFIX):
                told = self._of_message(change, head, inbox[item.partition], alone=len(changes) == 1)
            elif item.sort.startswith(DEPARTURE_PREFIX):
                told = _of_departure(change, head)
            elif item.sort.startswith(REPLY_PREFIX):
                told = _of_reply(change, head, waiting[item.partition])
            elif item.sort.startswith(PARKED_PREFIX) and change.before is None and not _commits(head):
                told = (f"{item.sort} was parked without a commit (G4)",)
            yield from (f"{item.partition}: {each}" for each in told)

    def _of_message(
        self, change: Change, head: Change | None, waiting: Iterable[Item], *, alone: bool
    ) -> Iterator[str]:
        message = change.item
        if change.after is not None and message.sort.endswith(TAKEN):
            if not _commits(head):
                yield f"{message.sort} was noted without a commit (G4)"
            self._arrived.setdefault((message.partition, message.sort), len(self._arrived))
            return
        if change.after is not None:
            self._arrived.setdefault((message.partition, message.sort), len(self._arrived))
            if head is None and self.posted and _is_safe_unannounced(decode_call(message.body)):
                self._unannounced.setdefault(message.partition, set()).add(message.sort)
            elif head is None or not _is_woken(head):
                yield f"{message.sort} came without a wake-up in the same write (G1)"
            return
        if alone:  # its sender withdrew it
            return
        if not _commits(head):
            yield f"{message.sort} was removed without a commit (G4)"
        yield from self._out_of_order(message, waiting)
        self._applied.add((message.partition, message.sort))

    def _out_of_order(self, message: Item, waiting: Iterable[Item]) -> Iterator[str]:
        """G6: a sender's messages are applied in the order sent. A message that was sent earlier and came later is from
        another task of the sender, and a delayed one comes when it is due.
        """
        for other in waiting:
            if (other.partition, other.sort) in self._applied:
                continue  # a repeat: a relay that died between delivery and mark has a successor
            sent_earlier = _sender(other) == _sender(message) and other.sort < message.sort
            if sent_earlier and self._place(other) < self._place(message) and not decode_call(other.body).not_before:
                yield f"{message.sort} was applied before {other.sort}, which was sent earlier (G6)"

    def _place(self, message: Item) -> int:
        return self._arrived[message.partition, message.sort]


def _is_safe_unannounced(call: Call) -> bool:
    """Whether a message may wait until its owner happens to look: not if a repeat of it may be forgotten by then."""
    return call.numbered or not (call.named and call.known)


def _of_departure(change: Change, head: Change | None) -> Iterator[str]:
    """What an actor sends leaves with a commit, under which it is due, and stays the same until it is deleted."""
    if change.before is not None and change.after is not None:
        yield f"{change.item.sort} was sent twice (G5)"
    elif change.after is not None and not _commits(head):
        yield f"{change.item.sort} was sent without a commit (G4)"


def _of_head(change: Change) -> Iterator[str]:
    before, head = change.before, change.after
    if head is None:
        yield "its head is gone"
        return
    status = None if before is None else before.status
    if head.status != status and head.status not in TRANSITIONS[status]:
        yield f"it went from {status} to {head.status}"
    if head.status == RUNNING if head.owner is None else head.status in {SUSPENDED, BLOCKED, HALTED}:
        yield f"it is {head.status} and owned by {head.owner}"
    if before is not None and head.epoch <= before.epoch and (head.epoch, head.body) != (before.epoch, before.body):
        yield f"its state changed under version {before.epoch}, which became {head.epoch} (G3)"
    if before is not None and before.body and head.body:
        yield from _of_kept_replies(decode_record(before.body), decode_record(head.body))


def _of_kept_replies(before: ActorRecord, after: ActorRecord) -> Iterator[str]:
    """A reply in the head stays as it is until it is over; it may move out before."""
    now = VirtualClock().now_ms()
    for id, kept in before.replies.items():
        other = after.replies.get(id)
        if kept.until > now and other is not None and other.reply != kept.reply:
            yield f"the reply to {id} was {kept.reply!r} and became {other.reply!r} (G5)"


def _of_kind(prefix: str, items: Iterable[Item]) -> Sequence[Item]:
    return [each for each in items if each.sort.startswith(prefix)]


def _uncovered(head: Item | None, waiting: Iterable[Item], sent: Sequence[Item]) -> Iterator[str]:
    """Work that would not be found if the owner died now."""
    if head is not None and sent and (head.due_at is None or not head.body or not decode_record(head.body).departing):
        yield f"it is due at {head.due_at} although {sent[0].sort} may not be delivered (G1)"
    if head is None or head.owner is None or not head.body:
        return
    record = decode_record(head.body)
    if head.due_at is None and any(True for _ in waiting):
        yield "its owner has cleared its due time although messages wait (G1)"
    timer = next_timer(record)
    # A sender that wakes it when the timer is overdue makes the head due at its own present time, which is as good.
    latest = None if timer is None else max(timer, VirtualClock().now_ms() + CLOCKS_APART_MS)
    if latest is not None and (head.due_at is None or head.due_at > latest) and not record.halted_by:
        yield f"it is due at {head.due_at} although a timer is at {timer} (G1)"


def _is_woken(head: Change) -> bool:
    """Whether a write makes the owner look."""
    return head.before is None or head.item.revision > head.before.revision


def _is_kept(reply: Item) -> bool:
    """Whether its window lasts by every clock. A reply whose window is over may be requested again."""
    return reply.expires_at is None or reply.expires_at > VirtualClock().now_ms() + CLOCKS_APART_MS


def _of_reply(change: Change, head: Change | None, there: Sequence[Item]) -> Iterator[str]:
    before, after = change.before, change.after
    if before is None and not _commits(head) and not _moves(change.item, there):
        yield f"{change.item.sort} was written without a commit (G4)"
    if before is not None and after is not None and before.body != after.body and _is_kept(before):
        yield f"{after.sort} was {before.body!r} and became {after.body!r} (G5)"


def _moves(reply: Item, there: Sequence[Item]) -> bool:
    """Whether a reply is in the head too: it was committed there, and moves out."""
    heads = (item for item in there if item.sort == HEAD and item.body)
    kept = (decode_record(head.body).replies.get(reply.sort.removeprefix(REPLY_PREFIX)) for head in heads)
    return any(each is not None and each.reply == decode_reply(reply.body) for each in kept)


def _commits(head: Change | None) -> bool:
    if head is None or head.after is None:
        return False
    return head.before is None or head.after.epoch > head.before.epoch


def _sender(message: Item) -> str:
    return message.sort.rpartition("#")[2]


# ── At rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_actor(item: Item) -> bool:
    """Whether an item is the head of an actor."""
    return item.sort == HEAD and item.partition.startswith(PARTITION_PREFIX)


def rests(head: Item) -> bool:
    """Whether an actor, or an outbox, has nothing left to do by itself."""
    return head.owner is None and head.due_at is None and (head.status in RESTING or not is_actor(head))


def let_go(item: Item, now: int) -> Item:
    """An item as it counts at ``now``. An actor, or an outbox, whose owner died when it had no accepted work keeps the
    owner's lapsed lease until its next call.
    """
    executes = item.partition.startswith(EXECUTION_PREFIX)
    owned = item.sort == HEAD and not executes and item.owner is not None and item.due_at is None
    if not owned or (item.lease_until or 0) + CLOCKS_APART_MS >= now:
        return item
    status = SUSPENDED if item.status == RUNNING else item.status
    return replace(item, owner=None, lease_until=None, status=status)


def actor_unrest(items: Iterable[Item]) -> Iterator[str]:
    """What actors have left behind although everything should have ended: leases, due times, messages, attempts."""
    for head, others in _actors(items):
        if not rests(head):
            yield f"{head.partition} is still {head.status}, owned by {head.owner}, due at {head.due_at}"
        if head.status == HALTED:
            continue
        record = decode_record(head.body) if head.body else None
        if record is not None and (record.timers or record.failures or record.halted_by):
            yield f"{head.partition} rests with {[*record.timers]}, {[*record.failures]}, {record.halted_by}"
        left = (each for each in others if each.sort.startswith((INBOX_PREFIX, DEPARTURE_PREFIX)))
        yield from (f"{head.partition} left {each.sort}" for each in left)


def described(items: Iterable[Item]) -> dict[str, str]:
    """The end of each actor, without the times and numbers that differ from run to run."""
    return {head.partition: _described(head, others) for head, others in _actors(items)}


def _described(head: Item, others: Sequence[Item]) -> str:
    state = decode_record(head.body).state if head.body else NOT_BEGUN
    if state == NOT_BEGUN:
        return "nothing"
    parked = [decode_parked(each.body).call.method for each in others if each.sort.startswith(PARKED_PREFIX)]
    told = "hidden" if actor_of(head.partition).startswith(HIDDEN_MARK) else bytes(state).decode()  # it holds a stamp
    return f"{told}, parked {parked}"


def _actors(items: Iterable[Item]) -> Iterator[tuple[Item, Sequence[Item]]]:
    """Each actor's head, and its other items in order."""
    entities: dict[str, dict[str, Item]] = {}
    for item in items:
        if item.partition.startswith(PARTITION_PREFIX):
            entities.setdefault(item.partition, {})[item.sort] = item
    for _, entity in sorted(entities.items()):
        head = entity.pop(HEAD)
        yield head, [entity[sort] for sort in sorted(entity)]
