"""The span around code of users in an attempt: what they say of it is kept until the attempt is durable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.trace import Span, SpanContext, Status, StatusCode
from opentelemetry.util.types import Attributes


class LiveSpan(Span):
    """The current span inside an attempt. Spans of the users' code nest below it. It is exported by what the journal
    says of the attempt, and never if the journal says nothing: then the attempt has not counted.

    It implements the abstract ``opentelemetry.trace.Span`` ("opentelemetry.trace package",
    https://opentelemetry-python.readthedocs.io/en/latest/api/trace.html#opentelemetry.trace.Span).
    """

    def __init__(self, context: SpanContext) -> None:
        self._context = context
        self.attributes: dict[str, Any] = {}
        self.events: list[tuple[str, Attributes, int | None]] = []
        self.status: Status | None = None

    def end(self, end_time: int | None = None) -> None:
        """The attempt ends it."""

    def get_span_context(self) -> SpanContext:
        """Its context, with the id that follows from the attempt's identity."""
        return self._context

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Keep them."""
        self.attributes.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        """Keep it."""
        self.attributes[key] = value

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        """Keep it."""
        self.events.append((name, attributes, timestamp))

    def update_name(self, name: str) -> None:
        """The name is the step's."""

    def is_recording(self) -> bool:
        """Whether what is said of it is kept."""
        return self._context.trace_flags.sampled

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """The status is that of the attempt."""

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002, ARG002 - the signature of OpenTelemetry
    ) -> None:
        """Keep the type of an error. Its message may hold what a sealed home must not tell."""
        told = {"exception.type": type(exception).__name__, **(attributes or {})}
        self.events.append(("exception", told, timestamp))
