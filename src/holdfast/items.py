"""Items, conditions and writes: the whole vocabulary of the store (DESIGN idea 1).

An item is (partition, sort) → header + body. A write changes one item under one condition. Everything durable in
Holdfast (a head, a lease, a journal segment, a message) is an item and a condition; there is no second mechanism.

Conditions are data, and ``holds`` defines their meaning: a store that can express them in its own language must agree
with it, and the conformance suite checks that it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

HEAD: Final = "@"
"""The sort key of an entity's head."""


class Item(Struct, frozen=True, gc=False):
    """One durable record. Times are integers: milliseconds since the epoch.

    ``revision`` counts the changes that other readers must notice; ``epoch`` is the fencing token and never goes back
    (G3).
    ``lease_until`` belongs to ``owner``: both set, or both ``None``. ``due_at`` is when the sweep should check this
    head. After ``expires_at`` the item counts as absent to its readers and may be deleted by the store at any time.
    """

    partition: str
    sort: str = HEAD
    revision: int = 0
    status: str = ""
    owner: str | None = None
    lease_until: int | None = None
    epoch: int = 0
    due_at: int | None = None
    expires_at: int | None = None
    body: bytes = b""

    def __repr__(self) -> str:
        """All but the body, which must not be shown, for example in a traceback with locals."""
        told = ((name, getattr(self, name)) for name in self.__struct_fields__ if name != "body")
        return f"Item({', '.join(f'{name}={value!r}' for name, value in told)}, body=<{len(self.body)} bytes>)"


# ── Conditions ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Always(Struct, frozen=True, gc=False):
    """No condition: the write always applies."""


class Absent(Struct, frozen=True, gc=False):
    """There is no item."""


class Exists(Struct, frozen=True, gc=False):
    """There is an item."""


class RevisionIs(Struct, frozen=True, gc=False):
    """It exists and has not changed since it had this revision."""

    revision: int


class EpochIs(Struct, frozen=True, gc=False):
    """It exists and has this epoch, with any owner."""

    epoch: int


class OwnerIs(Struct, frozen=True, gc=False):
    """It exists and this owner still holds it under this epoch."""

    owner: str
    epoch: int


class Unowned(Struct, frozen=True, gc=False):
    """It exists and has no owner: its last lease was released."""


class LeaseLapsed(Struct, frozen=True, gc=False):
    """It exists, and its lease lapsed before ``now`` (milliseconds) without being released."""

    now: int


class StatusIn(Struct, frozen=True, gc=False):
    """It exists and has one of these statuses."""

    statuses: tuple[str, ...]


class Expired(Struct, frozen=True, gc=False):
    """It exists and its ``expires_at`` is at or before ``now`` (milliseconds)."""

    now: int


class AllOf(Struct, frozen=True, gc=False):
    """Every one of these holds."""

    conditions: tuple[Condition, ...]


class AnyOf(Struct, frozen=True, gc=False):
    """At least one of these holds."""

    conditions: tuple[Condition, ...]


Condition = (
    Always
    | Absent
    | Exists
    | RevisionIs
    | EpochIs
    | OwnerIs
    | Unowned
    | LeaseLapsed
    | StatusIn
    | Expired
    | AllOf
    | AnyOf
)

ALWAYS: Final = Always()
ABSENT: Final = Absent()
EXISTS: Final = Exists()
UNOWNED: Final = Unowned()


def holds(condition: Condition, item: Item | None) -> bool:
    """Whether ``condition`` is true of the present item (``None``: there is none)."""
    match condition:
        case Always():
            return True
        case Absent():
            return item is None
        case AllOf(conditions):
            return all(holds(each, item) for each in conditions)
        case AnyOf(conditions):
            return any(holds(each, item) for each in conditions)
        case _:
            pass
    if item is None:
        return False
    match condition:
        case Exists():
            return True
        case RevisionIs(revision):
            return item.revision == revision
        case EpochIs(epoch):
            return item.epoch == epoch
        case OwnerIs(owner, epoch):
            return item.owner == owner and item.epoch == epoch
        case Unowned():
            return item.owner is None
        case LeaseLapsed(now):
            return item.lease_until is not None and item.lease_until < now
        case StatusIn(statuses):
            return item.status in statuses
        case Expired(now):
            return item.expires_at is not None and item.expires_at <= now


# ── Writes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Put(Struct, frozen=True, gc=False):
    """Store the whole item, new or in place of the present one, if ``when`` holds."""

    item: Item
    when: Condition = ALWAYS


class Update(Struct, frozen=True, kw_only=True, gc=False):
    """Change the named fields of an existing item, if ``when`` holds.

    A field left ``UNSET`` keeps its value; ``add_revision`` and ``add_epoch`` are added in place. With ``load`` the
    store returns the item as it is afterwards. An update of a missing item is refused.

    With ``wakes`` it only makes the owner look at the messages that its call puts. A store may apply it after them, and
    together with others of its kind. Of a call without an answer, the messages may then be there without it. So a
    process that has to send a message, and finds it in its place, sends this update again.

    With ``whole`` no message is there without it: for one that may come again as another message, and is recognised
    for a limited time only. When the update is refused, the messages are taken back, unless it is ``lasting``: then
    another process may have found them in their places.
    """

    partition: str
    sort: str = HEAD
    when: Condition = EXISTS
    status: str | UnsetType = UNSET
    owner: str | UnsetType | None = UNSET
    lease_until: int | UnsetType | None = UNSET
    due_at: int | UnsetType | None = UNSET
    expires_at: int | UnsetType | None = UNSET
    body: bytes | UnsetType = UNSET
    add_revision: int = 0
    add_epoch: int = 0
    load: bool = False
    wakes: bool = False
    whole: bool = False
    lasting: bool = False


class Delete(Struct, frozen=True, gc=False):
    """Remove the item if ``when`` holds. Removing a missing item is no error under ``ALWAYS``."""

    partition: str
    sort: str
    when: Condition = ALWAYS


Write = Put | Update | Delete


def place(write: Write) -> tuple[str, str]:
    """The partition and sort key of the item that a write touches."""
    return (write.item.partition, write.item.sort) if isinstance(write, Put) else (write.partition, write.sort)


def one_per_place(writes: Iterable[Write]) -> Sequence[Write]:
    """The last write of each place: an earlier write that it contains need not be sent."""
    return tuple({place(write): write for write in writes}.values())


def body_of(write: Write) -> bytes:
    """The body that a write brings, if it brings one."""
    if isinstance(write, Put):
        return write.item.body
    return b"" if isinstance(write, Delete) or write.body is UNSET else write.body


class Bounds(Struct, frozen=True):
    """The bounds of one call of ``Store.write``: the most writes, and the most bytes of bodies in them.

    More takes several calls, each of which leaves a complete state.
    """

    writes: int
    body_bytes: int

    def fit(self, writes: Sequence[Write], *, besides: int = 1) -> bool:
        """Whether these can be one call, together with ``besides`` small ones."""
        return len(writes) + besides <= self.writes and sum(len(body_of(each)) for each in writes) <= self.body_bytes

    def split(self, writes: Sequence[Write]) -> Sequence[Sequence[Write]]:
        """The writes in their order, in parts that can be one call each, together with one small write.

        >>> [len(part) for part in Bounds(writes=3, body_bytes=1000).split([Delete("p", str(n)) for n in range(5)])]
        [2, 2, 1]
        """
        parts: list[list[Write]] = []
        held_bytes = 0
        for write in writes:
            size_bytes = len(body_of(write))
            if parts and len(parts[-1]) + 1 < self.writes and held_bytes + size_bytes <= self.body_bytes:
                parts[-1].append(write)
                held_bytes += size_bytes
            else:
                parts.append([write])
                held_bytes = size_bytes
        return parts


def parts_of(writes: Sequence[Write], bounds: Bounds | None) -> Sequence[Sequence[Write]]:
    """The writes in parts that can be one call each; one part without bounds, and none without writes."""
    if bounds is None:
        return [writes] if writes else []
    return bounds.split(writes)


SETTABLE: Final = ("status", "owner", "lease_until", "due_at", "expires_at", "body")
"""The fields an ``Update`` may set, in the order stores write them."""


def updated(item: Item, update: Update) -> Item:
    """``item`` as it is after ``update``."""
    changes = {name: value for name in SETTABLE if (value := getattr(update, name)) is not UNSET}
    return replace(
        item,
        revision=item.revision + update.add_revision,
        epoch=item.epoch + update.add_epoch,
        **changes,
    )
