"""Pictures of state machines: an outline for a terminal, and an SVG for a page."""

from __future__ import annotations

from holdfast.asl.drawing.diagram import Diagram, diagram_of
from holdfast.asl.drawing.marks import Mark, marks_of, standing
from holdfast.asl.drawing.outline import outline
from holdfast.asl.drawing.picture import picture_of
from holdfast.asl.drawing.svg import svg

__all__ = ["Diagram", "Mark", "diagram_of", "marks_of", "outline", "picture_of", "standing", "svg"]
