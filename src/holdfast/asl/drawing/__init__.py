"""Pictures of state machines: an outline for a terminal, and an SVG for a page."""

from __future__ import annotations

from holdfast.asl.drawing.diagram import Diagram, diagram_of
from holdfast.asl.drawing.outline import outline
from holdfast.asl.drawing.svg import svg

__all__ = ["Diagram", "diagram_of", "outline", "svg"]
