"""The telemetry of Holdfast: counted events, and their subscribers.

| event | fields | means |
|---|---|---|
| ``claimed`` | partition, takeover | this process became an entity's owner |
| ``fenced`` | partition | it lost an entity to a newer owner and stopped |
| ``suspended`` | partition, due_at | an entity waits for a distant event |
| ``ended`` | partition, status | an entity ended |
| ``evicted`` | partition | a waiting entity left memory |
| ``handed_over`` | partition, version | another published version of the code was invoked to continue an entity |
| ``blocked`` | partition, reason | no code here may continue this entity |
| ``loop_stalled`` | partition, seconds | a workflow body held the event loop; its work belongs in a step |
| ``threads_busy`` | partition, op, seconds | a blocking step has waited this long for a thread: all are busy |
| ``step_retried`` | partition, op, attempt | a step failed and will be tried again |
| ``message_failed`` | partition, attempt, error | a message or an event failed, and may be tried again |
| ``parked``, ``halted`` | partition, place | its attempts are over: it was parked, or its actor has halted at it |
| ``method_timed_out`` | partition, method | a method or a consumer took longer than its ``timeout``: it is cancelled |
| ``method_left_behind`` | partition, method | it ignores the cancellation: its actor continues without it |
| ``message_mismatched`` | partition, id | a request or an event came again with other content, and was not handled |
| ``message_repeated`` | partition, place | a parked message was delivered again, and was only acknowledged |
| ``delivery_repeated`` | partition, place | what an actor had sent was delivered again, and was only acknowledged |
| ``event_unwanted`` | partition, name | an event that no consumer has subscribed to was dropped |
| ``event_unfit`` | partition, id, error | the bus will never accept an event: it was parked |
| ``bus_failed`` | partition, count, error | the bus has not confirmed ``count`` events; they are sent again |
| ``conflicted`` | partition | a document or stream had changed meanwhile, and the change was decided again |
| ``tick_skipped`` | partition, timer | ticks were missed, and are dropped |
| ``store_awaited`` | error | a starting worker gets no answer from the store, and waits |
| ``store_unusable`` | error | a sweep found the store unusable (for example, its file was deleted): a person must act |
| ``lease_lost`` | partition, fence | a lease of ``app.lease`` lapsed, or another owner took it over |
| ``release_failed`` | partition, error | the store did not release a lease; it lapses by itself |
| ``cache_failed`` | group, error | the source of a cache failed, and a stale value was returned instead |
| ``resource_failed`` | resource, error | a resource failed its check or its closing; it is opened again when it is
needed |
| ``replayed`` | handler | a repeat of an idempotent call was answered from its record |
| ``http_answered`` | route, status, caller, target | an HTTP request was answered; ``target`` is its object |
| ``ring_failed`` | count, error | ``count`` wake-ups could not be sent: the sweep finds their work |
| ``postpone_failed`` | count, error | ``count`` messages of a queue come again later than they were to |
| ``execution_parked`` | partition, reason | too many processes died of this execution: it waits to be resumed |
| ``swept`` | due, oldest_seconds, blocked | a complete sweep has ended, parked entities included: see
``holdfast.metrics`` |
| ``queue_admitted`` | partition, count | the worker that decides for a queue let ``count`` executions begin |
| ``queue_refused`` | partition | a start was refused, because too many executions wait in its queue |
| ``turn_failed`` | partition, error | the kernel could not finish a turn; the sweep will try again |
| ``beat_failed`` | error | a sweep, a renewal or a purge failed; it is tried again at its next time |

Fields carry ids and numbers only: never payloads, results or tokens.

Details are frequent. They are made only if a subscriber of theirs is there, and are not counted:

| detail | fields | means |
|---|---|---|
| ``begun`` | partition | the body of an execution began for the first time |
| ``finished`` | partition, status, seconds | an execution ended, so long after its start |
| ``step_ended`` | step, outcome, seconds | an attempt of a step ended: ``done``, ``failed``, or ``retrying`` |
| ``committed`` | seconds | a turn has waited for a write of its journal, or of the head that it left |
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec

from holdfast.containment import contained_call
from holdfast.logs import log
from holdfast.texts import printable

if TYPE_CHECKING:
    from holdfast.tracing import Tracer

P = ParamSpec("P")

LOGGED: Final = {
    "fenced": logging.INFO,
    "lease_lost": logging.WARNING,
    "release_failed": logging.WARNING,
    "cache_failed": logging.WARNING,
    "resource_failed": logging.WARNING,
    "handed_over": logging.INFO,
    "blocked": logging.WARNING,
    "parked": logging.WARNING,
    "execution_parked": logging.WARNING,
    "halted": logging.WARNING,
    "method_timed_out": logging.WARNING,
    "method_left_behind": logging.ERROR,
    "message_mismatched": logging.WARNING,
    "event_unfit": logging.WARNING,
    "bus_failed": logging.WARNING,
    "loop_stalled": logging.WARNING,
    "threads_busy": logging.WARNING,
    "store_awaited": logging.WARNING,
    "store_unusable": logging.ERROR,
    "ring_failed": logging.WARNING,
    "postpone_failed": logging.WARNING,
    "turn_failed": logging.ERROR,
    "beat_failed": logging.ERROR,
}
"""The events that also go to the ``holdfast`` logger, and their levels."""

Subscriber = Callable[[str, dict[str, object]], None]


class Telemetry:
    """Counts events and passes them on. One per open app."""

    __slots__ = ("_detailed", "_failed", "_subscribers", "_untold", "counts", "is_detailed", "tracer")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.is_detailed = False
        """Whether a subscriber asks for details. An attribute, since hot paths look at it."""
        self.tracer: Tracer | None = None
        """Who makes spans of what becomes durable, if anything does. Call it by ``trace``."""
        self._subscribers: list[Subscriber] = []
        self._detailed: list[Subscriber] = []
        self._failed: list[Subscriber] = []
        self._untold: set[str] = set()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber(event, fields)`` for every event, on the thread of the event. It must not block.

        Its errors have no effect: the first error of each subscriber goes to the ``holdfast`` logger.
        """
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Stop calling it."""
        self._subscribers.remove(subscriber)

    def subscribe_to_details(self, subscriber: Subscriber) -> None:
        """Call ``subscriber(detail, fields)`` for every detail from now on, as ``subscribe`` does for events."""
        self._detailed.append(subscriber)
        self.is_detailed = True

    @property
    def subscribers(self) -> tuple[Subscriber, ...]:
        """Who is told of events."""
        return tuple(self._subscribers)

    @property
    def is_heard(self) -> bool:
        """Whether there are subscribers."""
        return bool(self._subscribers)

    def emit(self, event: str, **fields: object) -> None:
        """Count one event and pass it on."""
        self.counts[event] += 1
        if event in LOGGED:
            told = " ".join(f"{name}={printable(str(value))}" for name, value in fields.items())
            log(LOGGED[event], "%s %s", event, told)
        if self._subscribers:
            self._tell(self._subscribers, event, fields)

    def detail(self, event: str, **fields: object) -> None:
        """Pass a detail on. The caller has seen ``is_detailed``."""
        self._tell(self._detailed, event, fields)

    def trace(self, tell: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell the tracer, by one of its methods. Its errors cost its spans, and are reported once."""
        try:
            contained_call(tell, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - what makes spans must not cost durability
            if tell.__name__ not in self._untold:
                self._untold.add(tell.__name__)
                log(logging.ERROR, "no spans are made of some of what happens: %r failed", tell, error=error)

    def _tell(self, subscribers: list[Subscriber], event: str, fields: dict[str, object]) -> None:
        for subscriber in subscribers:
            try:
                contained_call(subscriber, event, fields)
            except Exception as error:  # noqa: BLE001 - an exporter that fails must not cost durability
                self._report(subscriber, event, error)

    def _report(self, subscriber: Subscriber, event: str, error: Exception) -> None:
        if subscriber not in self._failed:  # an exporter that is down fails at every event
            self._failed.append(subscriber)
            told = "the telemetry subscriber %r failed on %r; it is called all the same, and not reported again"
            log(logging.ERROR, told, subscriber, event, error=error)
