"""News for open pages, as server-sent events: an event only says that a page is old, and the page looks again.

State is truth, an event is a hint. Hints are the wake-ups that this process hears from others; what they do not tell is
seen by a look every second. Events of this process's own worker are no hints: to pass on thousands of them a second
cost a busy worker a fifth of its throughput. The more pages are open, the less often each one looks, so that all of
them together cost no more than a few looks a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from holdfast.actors.record import PARTITION_PREFIX as ACTORS
from holdfast.actors.record import key_of
from holdfast.actors.record import partition_of as actor_partition
from holdfast.dashboard.sessions import was_ended
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.http.problems import Problem
from holdfast.workflows.record import PARTITION_PREFIX as EXECUTIONS
from holdfast.workflows.record import id_of, partition_of

if TYPE_CHECKING:
    from holdfast.dashboard.visit import Visit
    from holdfast.http.api import Served

SHORTEST_PAUSE_SECONDS: Final = 0.25
"""The pause between two events of one page, and between two looks of all pages together."""

TOLD_EVERY_SECONDS: Final = 0.1
"""How long hints are gathered before streams are told of them."""

LOOK_SECONDS: Final = 1.0
PAID_LOOK_SECONDS: Final = 15.0
"""How long a page waits for a hint before it looks all the same; the second where reads are billed."""

STREAM_SECONDS: Final = 25.0
"""How long a stream lasts: then its page opens another one. A server that does not say when it stops, such as uvicorn,
waits for its responses to end (https://www.uvicorn.org/server-behavior/#graceful-process-shutdown).
"""

MOST_STREAMS: Final = 200
MOST_STREAMS_OF_SESSION: Final = 30

STALE: Final = b"event: stale\ndata: main\n\n"
AGAIN: Final = b"event: again\ndata: stream\n\n"
OVER: Final = b"event: over\ndata: session\n\n"
FIRST: Final = b"retry: 2000\n\n"

Admits = Callable[[str], bool]


class Stream:
    """What one open page waits for."""

    def __init__(self, session: str, admits: Admits) -> None:
        self.session = session
        self.last = b""
        self._ended = asyncio.Event()
        self._admits = admits
        self._news = asyncio.Event()

    def heard(self, partitions: set[str | None]) -> None:
        """Something has happened to these entities; ``None``: perhaps to any."""
        if not self._news.is_set() and any(each is None or self._admits(each) for each in partitions):
            self._news.set()

    def has_ended(self) -> bool:
        """Whether nothing more is sent."""
        return self._ended.is_set()

    def end(self, last: bytes = b"") -> None:
        """End the stream with this event. Without one, the browser opens it again after a while by itself."""
        if not self._ended.is_set():
            self.last = last
        self._ended.set()
        self._news.set()

    async def next(self, patience_seconds: float) -> None:
        """Wait for news, or as long as there is patience."""
        try:
            async with asyncio.timeout(patience_seconds):
                await self._news.wait()
        except TimeoutError:
            pass
        if not self.has_ended():
            self._news.clear()


class Streams:
    """The streams of all open pages of this process. It listens only while there are some."""

    def __init__(self, app: Served) -> None:
        self._app = app
        self._open: set[Stream] = set()
        self._heard_of: set[str | None] = set()

    def respond(self, visit: Visit) -> Response:
        """The stream of a page. Raises ``Problem`` if there are too many, ``InvalidInput`` for an unknown page."""
        if visit.polls:
            raise Problem(404, "no_route", "nothing is streamed here: pages ask for news themselves")
        if self._is_full(visit.session.id):
            raise Problem(503, "overloaded", "too many pages are open: this one looks again by itself")
        watch = visit.query("watch").one("watch") or ""
        stream = Stream(visit.session.id, within_tenant(watched(watch), visit.tenant))
        return StreamingResponse(self._events(visit, stream), media_type="text/event-stream")

    def end(self) -> None:
        """End all streams: the server stops."""
        for stream in self._open:
            stream.end()

    def end_session(self, session: str) -> None:
        """End the streams of a session: its user has logged out."""
        for stream in self._open:
            if stream.session == session:
                stream.end(OVER)

    def _is_full(self, session: str) -> bool:
        own = sum(each.session == session for each in self._open)
        return len(self._open) >= MOST_STREAMS or own >= MOST_STREAMS_OF_SESSION

    async def _events(self, visit: Visit, stream: Stream) -> AsyncIterator[bytes]:
        if self._is_full(stream.session):
            return  # others that were asked for at the same time came first: the browser asks again
        runtime = self._app.runtime()
        loop, look = runtime.loop, PAID_LOOK_SECONDS if runtime.home.reads_are_paid else LOOK_SECONDS
        self._add(stream)
        lasts = loop.call_later(STREAM_SECONDS, stream.end, AGAIN)
        has_told = False
        try:
            yield FIRST
            while True:
                pause = SHORTEST_PAUSE_SECONDS * len(self._open)
                sent_at = loop.time()
                await stream.next(max(look, pause))
                if stream.has_ended():
                    break
                if await self._is_over(visit):
                    stream.end(OVER)
                    break
                while not stream.has_ended() and (left := sent_at + pause - loop.time()) > 0:
                    await stream.next(left)
                if stream.has_ended():
                    break
                yield STALE
                has_told = True
            if stream.last == AGAIN and not has_told:
                yield STALE  # other open pages came first
            if stream.last:
                yield stream.last
        finally:
            lasts.cancel()
            self._remove(stream)

    async def _is_over(self, visit: Visit) -> bool:
        """Whether the session is over: its time is up, or its user has logged out elsewhere."""
        if visit.session.until <= visit.now_ms:
            return True
        try:
            return await was_ended(self._app.runtime().home.store, visit.session)
        except HoldfastError:
            return False  # the page finds out when it looks

    def _add(self, stream: Stream) -> None:
        if not self._open:
            self._app.runtime().wake_listeners.add_for_all(self._heard)
        self._open.add(stream)

    def _remove(self, stream: Stream) -> None:
        self._open.discard(stream)
        if not self._open:
            self._app.runtime().wake_listeners.remove_for_all(self._heard)

    def _heard(self, partition: str | None) -> None:
        """Keep it for the next time that streams are told: a busy worker has thousands of events a second."""
        if not self._heard_of:
            self._app.runtime().loop.call_later(TOLD_EVERY_SECONDS, self._tell)
        self._heard_of.add(partition)

    def _tell(self) -> None:
        heard, self._heard_of = self._heard_of, set()
        for stream in self._open:
            stream.heard(heard)


# ── What a page is about ────────────────────────────────────────────────────────────────────────────────────────────


def watched(watch: str) -> Admits:
    """The entities that a page is about, as the page names them. Raises ``InvalidInput``."""
    try:
        names = msgspec.json.decode(watch, type=list[str]) if watch.startswith("[") else [watch]
    except (msgspec.MsgspecError, ValueError):
        names = []
    match names:
        case ["executions"]:
            return lambda partition: partition.startswith(EXECUTIONS)
        case ["actors"]:
            return lambda partition: partition.startswith(ACTORS)
        case ["home"]:
            return lambda _partition: True
        case ["execution", workflow, id]:
            return partition_of(workflow, id).__eq__
        case ["actor", actor, key]:
            return actor_partition(actor, key).__eq__
        case _:
            raise InvalidInput("no page is about that")


def within_tenant(admits: Admits, tenant: str) -> Admits:
    """The same, but only for entities that a caller may see."""
    if not tenant:
        return admits

    def own(partition: str) -> bool:
        if partition.startswith(EXECUTIONS):
            return admits(partition) and id_of(partition).startswith(tenant)
        return partition.startswith(ACTORS) and admits(partition) and key_of(partition).startswith(tenant)

    return own
