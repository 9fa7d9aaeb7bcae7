"""The picture of an execution: the machine that it began with, and where it stands in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.asl.about import begun_with
from holdfast.asl.definition import parse
from holdfast.asl.drawing.diagram import diagram_of
from holdfast.asl.drawing.marks import marks_of
from holdfast.asl.drawing.svg import svg
from holdfast.asl.reading import events_of
from holdfast.asl.workflow import definition_in

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


async def picture_of(runtime: Runtime, partition: str) -> str:
    """An SVG of an execution of a machine whose code is here. Raises ``NotFound``."""
    found, events = await events_of(runtime, partition)
    definition = definition_in(begun_with(bytes(found.record.input)).definition, found.shared)
    marks = marks_of(events, has_ended=found.record.ended_at is not None)
    return svg(diagram_of(parse(definition).processor), marks)
