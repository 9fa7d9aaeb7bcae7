"""The spans of calls, messages, ticks and events that actors and consumers have handled."""

from __future__ import annotations

from typing import Final

from holdfast.actors.record import HIDDEN_MARK, actor_of, key_of
from holdfast.actors.turn.handling import Handled, Handling
from holdfast.otel.spans import LONGEST_NAME_CHARACTERS, Attributes, Kind, Span
from holdfast.patterns.starts.keyed import STARTER_MARK
from holdfast.tracing import checked
from holdfast.workflows.trace_ids import call_span, call_trace

SYSTEM: Final = "holdfast"


def of_handled(handled: Handled) -> Span:
    """The span of an attempt that has ended. Its parent is the context that came with the call."""
    handling = handled.handling
    name, kind, destination = _named(handling)
    carried = checked(handling.trace)
    _, trace, parent, flags = carried.split("-") if carried else ("", "", "", "")
    attributes: Attributes = {
        "holdfast.actor": destination,
        "holdfast.key": key_of(handling.partition),
        "holdfast.attempt": handling.attempt,
        "holdfast.outcome": handled.outcome,
    }
    if kind == "consumer":
        attributes |= {"messaging.system": SYSTEM, "messaging.destination.name": destination}
    return Span(
        name=name[:LONGEST_NAME_CHARACTERS],
        trace=trace or call_trace(handling.partition, handling.id),
        id=call_span(handling.partition, handling.place, handling.id, handling.attempt, handling.began),
        parent=parent,
        flags=flags,
        begins=min(handling.began, handled.at),
        ends=handled.at,
        kind=kind,
        error=handled.error,
        attributes=attributes,
    )


def _named(handling: Handling) -> tuple[str, Kind, str]:
    """The name of the span, its kind, and what has handled it: an actor, a consumer, a schedule, or a key
    of starts.

    The methods of a schedule are ``tick``, ``run`` for its handler, and ``arm`` when it is new or has changed
    (``messaging.cron``).
    """
    actor = actor_of(handling.partition)
    if not actor.startswith(HIDDEN_MARK):
        return f"actor {actor}.{handling.method}", "internal" if handling.reads else "consumer", actor
    consumer = actor.rpartition(HIDDEN_MARK)[2]
    if STARTER_MARK in consumer:
        return f"{consumer} {handling.method}", "internal", consumer
    if consumer:
        return f"consume {consumer}", "consumer", consumer
    schedule = key_of(handling.partition)
    return f"{handling.method} {schedule}", "internal", schedule
