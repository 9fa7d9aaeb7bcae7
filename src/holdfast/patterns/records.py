"""Documents and streams of an app, transactions over them, and projections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.codec.upcasting import Schema, Upcaster, check_upcasters
from holdfast.coordination.document.collection import Documents
from holdfast.coordination.document.handle import Document
from holdfast.coordination.stream.collection import Streams
from holdfast.coordination.stream.handle import Stream
from holdfast.coordination.stream.kinds import Kinds, Upcasters
from holdfast.coordination.stream.record import Recorded
from holdfast.errors import DuplicateName
from holdfast.kernel.runtime import Runtime
from holdfast.patterns.atomic import Transaction, repeat
from holdfast.patterns.bell import AppBell
from holdfast.patterns.declared import Declared
from holdfast.patterns.projection import BATCH_EVENTS, CHECKPOINTS, Projection

if TYPE_CHECKING:
    from holdfast.duration import Duration
    from holdfast.messaging.publishing import Outbox

T = TypeVar("T")
R = TypeVar("R")


class Records:
    """What an app offers for the user's own state. Nothing here reads or writes before it is used."""

    outbox: Outbox

    def __init__(self) -> None:
        self._documents: Declared[Documents[Any]] = Declared("documents")
        self._streams: Declared[Streams[Any]] = Declared("streams")
        self._sources: dict[str, str] = {}
        """What each projection reads, by its name."""
        self._checkpoints = Documents(CHECKPOINTS, Schema(codec_for(int), {}), None, self.runtime)
        self._random = Random(ids.new_seed())

    def runtime(self) -> Runtime:
        """The open app, as the patterns see it. Raises ``ConfigurationError`` if it is not open."""
        raise NotImplementedError

    # ── Documents ───────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def documents(
        self,
        hint: type[T],
        /,
        *,
        name: str | None = ...,
        ttl: Duration | None = ...,
        upcasters: Mapping[int, Upcaster] | None = ...,
    ) -> Documents[T]: ...
    @overload
    def documents(
        self,
        hint: Any,
        /,
        *,
        name: str | None = ...,
        ttl: Duration | None = ...,
        upcasters: Mapping[int, Upcaster] | None = ...,
    ) -> Documents[Any]: ...
    def documents(
        self,
        hint: Any,
        /,
        *,
        name: str | None = None,
        ttl: Duration | None = None,
        upcasters: Mapping[int, Upcaster] | None = None,
    ) -> Documents[Any]:
        """The documents of a type, declared here or earlier. ``name`` is their name in the store, by default the
        class's.
        ``ttl`` is how long each lives after its last write. ``upcasters`` maps a schema version to the function that
        turns its plain JSON into the next version's; the type is then one version ahead of them.
        """

        def make(own: str) -> Documents[Any]:
            forms = check_upcasters(upcasters or {}, "a document")
            return Documents(own, Schema(codec_for(hint), forms), ttl, self.runtime)

        return self._documents.declare(hint, name, make, plain=ttl is None and upcasters is None)

    @overload
    def document(self, hint: type[T], /, *key: str) -> Document[T]: ...
    @overload
    def document(self, hint: Any, /, *key: str) -> Document[Any]: ...
    def document(self, hint: Any, /, *key: str) -> Document[Any]:
        """The document of a type under a key, of one part or several; short for ``app.documents(T).at(*key)``."""
        return self.documents(hint).at(*key)

    def atomic(self) -> Transaction:
        """Change several documents, and publish events about the change, all or nothing.

            async with app.atomic() as tx:
                order = await tx.get(document)
                tx.put(document, replace(order, status="paid"))
                tx.publish(OrderPaid(order.id))

        It commits at the end of the block; an error in the block drops it. Raises ``Conflict`` if anything that was
        read has changed meanwhile. To try again in that case, use ``atomically``.
        """
        return Transaction(self.runtime(), self.outbox)

    async def atomically(self, work: Callable[[Transaction], Awaitable[R]]) -> R:
        """Run ``work`` in a transaction, and again in a new one while other writers are faster; return its result.

        ``work`` may run several times, so all that it does must go through the transaction. Raises ``Conflict`` if
        other writers are faster every time.
        """
        return await repeat(self.atomic, work, self._random)

    # ── Streams ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def streams(
        self, hint: type[T], /, *, name: str | None = ..., ordered: bool = ..., upcasters: Upcasters | None = ...
    ) -> Streams[T]: ...
    @overload
    def streams(
        self, hint: Any, /, *, name: str | None = ..., ordered: bool = ..., upcasters: Upcasters | None = ...
    ) -> Streams[Any]: ...
    def streams(
        self, hint: Any, /, *, name: str | None = None, ordered: bool = False, upcasters: Upcasters | None = None
    ) -> Streams[Any]:
        """The streams of a type of events, or of a union of classes, declared here or earlier.

        ``name`` is their name in the store, by default the class's. ``ordered`` gives the events of all of them one
        order, on homes that have one writer. ``upcasters`` maps a class of events to what ``documents`` takes.
        """

        def make(own: str) -> Streams[Any]:
            bell = AppBell(self.runtime)
            return Streams(own, Kinds(hint, upcasters or {}), self.runtime, bell, ordered=ordered)

        return self._streams.declare(hint, name, make, plain=not ordered and upcasters is None)

    @overload
    def stream(self, hint: type[T], /, *key: str) -> Stream[T]: ...
    @overload
    def stream(self, hint: Any, /, *key: str) -> Stream[Any]: ...
    def stream(self, hint: Any, /, *key: str) -> Stream[Any]:
        """The stream of a type under a key, of one part or several; short for ``app.streams(T).at(*key)``."""
        return self.streams(hint).at(*key)

    def projection(
        self,
        name: str,
        source: Streams[T] | Stream[T],
        apply: Callable[[Transaction, Recorded[T]], Awaitable[Any]],
        *,
        batch: int = BATCH_EVENTS,
    ) -> Projection[T]:
        """Documents made of events: ``apply(tx, recorded)`` changes them, once for each event, in order.

        What it does through ``tx`` commits together with its checkpoint; ``batch`` events share a transaction. The
        checkpoint belongs to ``name``: give it another one to start from the beginning. Raises ``DuplicateName`` if a
        projection of other streams has it.
        """
        if (own := self._sources.setdefault(name, repr(source))) != repr(source):
            raise DuplicateName(
                f"two projections have the name {name!r}, of {own} and of {source!r}: each would continue where the "
                "other stopped, and skip events. Give one of them another name"
            )
        return Projection(source, apply, self._checkpoints.at(name), self.atomically, batch)
