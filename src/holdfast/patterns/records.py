"""Documents and streams of an app, transactions over them, and projections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.codec.upcasting import Schema, Upcaster, check_upcasters
from holdfast.coordination.document.documents import Document, Documents
from holdfast.coordination.stream.kinds import Kinds, Upcasters
from holdfast.coordination.stream.record import Recorded
from holdfast.coordination.stream.streams import Stream, Streams
from holdfast.patterns.atomic import Transaction, repeat
from holdfast.patterns.bell import AppBell
from holdfast.patterns.declared import declare
from holdfast.patterns.projection import BATCH_EVENTS, CHECKPOINTS, Projection

if TYPE_CHECKING:
    from holdfast.duration import Duration
    from holdfast.messaging.publishing import Publishes

T = TypeVar("T")
R = TypeVar("R")


# ── Documents ───────────────────────────────────────────────────────────────────────────────────────────────────


@overload
def documents(
    app: Publishes,
    hint: type[T],
    /,
    *,
    name: str | None = ...,
    ttl: Duration | None = ...,
    upcasters: Mapping[int, Upcaster] | None = ...,
) -> Documents[T]: ...


@overload
def documents(
    app: Publishes,
    hint: Any,
    /,
    *,
    name: str | None = ...,
    ttl: Duration | None = ...,
    upcasters: Mapping[int, Upcaster] | None = ...,
) -> Documents[Any]: ...


def documents(
    app: Publishes,
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
        return Documents(own, Schema(codec_for(hint), forms), ttl, app.runtime)

    return declare(app.registry.documents, "documents", hint, name, make, plain=ttl is None and upcasters is None)


@overload
def document(app: Publishes, hint: type[T], /, *key: str) -> Document[T]: ...


@overload
def document(app: Publishes, hint: Any, /, *key: str) -> Document[Any]: ...


def document(app: Publishes, hint: Any, /, *key: str) -> Document[Any]:
    """The document of a type under a key, of one part or several; short for ``app.documents(T).at(*key)``."""
    return documents(app, hint).at(*key)


def atomic(app: Publishes) -> Transaction:
    """Change several documents, and publish events about the change, all or nothing.

        async with app.atomic() as tx:
            order = await tx.get(document)
            tx.put(document, replace(order, status="paid"))
            tx.publish(OrderPaid(order.id))

    It commits at the end of the block; an error in the block drops it. Raises ``Conflict`` if anything that was
    read has changed meanwhile. To try again in that case, use ``atomically``.
    """
    return Transaction(app.runtime(), app.outbox)


async def atomically(app: Publishes, work: Callable[[Transaction], Awaitable[R]]) -> R:
    """Run ``work`` in a transaction, and again in a new one while other writers are faster; return its result.

    ``work`` may run several times, so all that it does must go through the transaction. Raises ``Conflict`` if
    other writers are faster every time.
    """
    return await repeat(partial(atomic, app), work, Random(ids.new_seed()))


# ── Streams ─────────────────────────────────────────────────────────────────────────────────────────────────────


@overload
def streams(
    app: Publishes, hint: type[T], /, *, name: str | None = ..., ordered: bool = ..., upcasters: Upcasters | None = ...
) -> Streams[T]: ...


@overload
def streams(
    app: Publishes, hint: Any, /, *, name: str | None = ..., ordered: bool = ..., upcasters: Upcasters | None = ...
) -> Streams[Any]: ...


def streams(
    app: Publishes, hint: Any, /, *, name: str | None = None, ordered: bool = False, upcasters: Upcasters | None = None
) -> Streams[Any]:
    """The streams of a type of events, or of a union of classes, declared here or earlier.

    ``name`` is their name in the store, by default the class's. ``ordered`` gives the events of all of them one
    order, on homes that have one writer. ``upcasters`` maps a class of events to what ``documents`` takes.
    """

    def make(own: str) -> Streams[Any]:
        bell = AppBell(app.runtime)
        return Streams(own, Kinds(hint, upcasters or {}), app.runtime, bell, ordered=ordered)

    return declare(app.registry.streams, "streams", hint, name, make, plain=not ordered and upcasters is None)


@overload
def stream(app: Publishes, hint: type[T], /, *key: str) -> Stream[T]: ...


@overload
def stream(app: Publishes, hint: Any, /, *key: str) -> Stream[Any]: ...


def stream(app: Publishes, hint: Any, /, *key: str) -> Stream[Any]:
    """The stream of a type under a key, of one part or several; short for ``app.streams(T).at(*key)``."""
    return streams(app, hint).at(*key)


def projection(
    app: Publishes,
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
    app.registry.add_projection(name, repr(source))
    checkpoints = Documents(CHECKPOINTS, Schema(codec_for(int), {}), None, app.runtime)
    return Projection(source, apply, checkpoints.at(name), partial(atomically, app), batch)
