"""A state made of events, and snapshots of it, so that not every event has to be read.

A snapshot follows from the events. It may be lost, or made again, at any time: nothing depends on it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Raw, Struct

from holdfast.codec.stored import stored
from holdfast.codec.typed import Codec, codec_for
from holdfast.coordination.stream.record import SNAPSHOT_PREFIX, Place, Recorded, StreamDeleted, encode, is_live
from holdfast.errors import ConfigurationError, PayloadTooLarge, Refused, StoreUnavailable
from holdfast.items import ABSENT, AnyOf, Item, Put, RevisionIs
from holdfast.keys import check_key
from holdfast.opened import Opened

S = TypeVar("S")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Fold(Generic[S, E]):
    """How a state follows from events: begin with ``initial()`` (by default ``state()``), then ``apply`` each.

    ``apply`` is a pure function of its arguments that returns the next state. With ``snapshot_every`` the state is kept
    after that many events, as typed JSON of the class ``state``. Raise ``version`` when ``apply`` treats old events
    differently: snapshots of another version are not used. They are kept under ``name``, by default the names of
    ``apply`` and of the class; a lambda, or a function within another, has no name of its own and needs one.

        balance = hf.Fold(int, lambda cents, event: cents + event.cents, snapshot_every=100, name="balance")
    """

    state: type[S]
    apply: Callable[[S, E], S]
    initial: Callable[[], S] | None = None
    snapshot_every: int = 0
    version: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        every: Any = self.snapshot_every  # whatever its annotation says
        if type(every) is not int or every < 0:
            raise ConfigurationError(f"snapshot_every must be a number of events, or 0 for no snapshots, got {every!r}")
        if every:
            codec_for(self.state)
            check_key("snapshot", (self.kept_as,))

    @property
    def kept_as(self) -> str:
        """The name of its snapshots. Raises ``ConfigurationError`` if nothing distinguishes them from others."""
        if self.name:
            return self.name
        function = getattr(self.apply, "__qualname__", "<>")
        if "<" in function:  # two of them, over one stream, would use each other's snapshots
            raise ConfigurationError(
                f"the snapshots of a fold are named after its function, and {self.apply!r} has no name of its own: "
                "give the fold one, with name=..., or declare the function at the top of a module"
            )
        return f"{self.apply.__module__}.{function}:{self.state.__name__}"

    @property
    def codec(self) -> Codec[S]:
        """How its snapshots are kept."""
        return codec_for(self.state)

    def begin(self) -> S:
        """The state before the first event."""
        return self.state() if self.initial is None else self.initial()


class Folded(Struct, Generic[S], frozen=True):
    """A state, the version of the stream that it represents, and the version and revision of its last snapshot."""

    state: S
    version: int
    snapshot: int = 0


class Snapshot(Struct, frozen=True):
    """The body of a snapshot's item; its revision is the version of the stream."""

    version: int
    state: Raw


_decode = stored(Snapshot, "a snapshot of a stream")


class Readable(Protocol[E]):
    """What a fold reads: a stream."""

    @property
    def place(self) -> Place: ...
    def events(self, after: int, upto: int | None) -> AsyncGenerator[Recorded[E]]: ...
    async def refuse_deleted(self, version: int) -> None: ...
    def reached(self, version: int) -> None: ...


async def load(
    stream: Readable[E],
    fold: Fold[S, E],
    opened: Opened,
    *,
    upto: int | None = None,
    at_ms: int | None = None,
    on: Folded[S] | None = None,
) -> Folded[S]:
    """The state of a stream, from its snapshot or from ``on``, and the events since. If those before were deleted, it
    begins again. Raises ``StreamDeleted`` if ``upto`` is a deleted version.
    """
    if upto is not None:
        await stream.refuse_deleted(upto)
    folded = on or await _begin(stream, fold, opened, upto=upto, past=at_ms is not None)
    while True:
        try:
            return await _add(stream, fold, folded, upto, at_ms)
        except StreamDeleted as deleted:
            if upto is not None and deleted.there > upto:
                raise
            folded = Folded(fold.begin(), deleted.there, deleted.there)


async def _add(
    stream: Readable[E], fold: Fold[S, E], folded: Folded[S], upto: int | None, at_ms: int | None
) -> Folded[S]:
    state, version = folded.state, folded.version
    async with aclosing(stream.events(version, upto)) as events:
        async for recorded in events:
            if at_ms is not None and recorded.at_ms > at_ms:
                break
            state, version = fold.apply(state, recorded.event), recorded.version
    return Folded(state, version, folded.snapshot)


async def _begin(stream: Readable[E], fold: Fold[S, E], opened: Opened, *, upto: int | None, past: bool) -> Folded[S]:
    fresh = Folded(fold.begin(), 0)
    if not fold.snapshot_every:
        return fresh
    item = await opened.home.store.get(stream.place.partition, SNAPSHOT_PREFIX + fold.kept_as)
    if item is None:
        return fresh
    kept = _decode(item.body)
    stream.reached(item.revision)
    # A snapshot may include events after the requested time, and one of another version is of another fold.
    if past or kept.version != fold.version or (upto is not None and item.revision > upto):
        return Folded(fresh.state, 0, item.revision)
    what = f"the snapshot {fold.kept_as} of stream {stream.place}"
    return Folded(fold.codec.decode(bytes(kept.state), what), item.revision, item.revision)


async def snapshot(
    stream: Readable[E], fold: Fold[S, E], before: Folded[S], appended: Sequence[Recorded[E]], opened: Opened
) -> None:
    """Keep the state after ``appended``, if it is time for it and no later one is kept."""
    last = appended[-1].version
    if not _is_due(fold, last, before):
        return
    if appended[0].version != before.version + 1:  # a repeat of an earlier request
        return
    state = before.state
    for each in appended:
        state = fold.apply(state, each.event)
    await _keep(stream, fold, Folded(state, last, before.snapshot), opened)


async def keep_read(stream: Readable[E], fold: Fold[S, E], read: Folded[S], opened: Opened) -> None:
    """Keep a state that was read, if it is time for it: the next reader need not read all events again."""
    if _is_due(fold, read.version, read):
        await _keep(stream, fold, read, opened)


def _is_due(fold: Fold[S, E], version: int, since: Folded[S]) -> bool:
    return bool(fold.snapshot_every) and version - since.snapshot >= fold.snapshot_every


async def _keep(stream: Readable[E], fold: Fold[S, E], folded: Folded[S], opened: Opened) -> None:
    partition, sort = stream.place.partition, SNAPSHOT_PREFIX + fold.kept_as
    # A snapshot that cannot be kept, or not now, does no harm: the events exist.
    with suppress(Refused, StoreUnavailable, PayloadTooLarge):
        data, _ = fold.codec.copy(folded.state, f"the state {fold.kept_as}", opened.limit_bytes)
        body = encode(Snapshot(fold.version, Raw(data)))
        item = Item(partition=partition, sort=sort, revision=folded.version, body=body)
        put = Put(item, AnyOf((ABSENT, RevisionIs(folded.snapshot))))
        # A process that was stopped here must not bring back what was deleted meanwhile.
        await opened.home.store.write(put, is_live(stream.place, folded.version))
