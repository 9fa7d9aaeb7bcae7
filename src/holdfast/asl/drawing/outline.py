"""A machine as an outline of text: a line for each state, with where it leads to."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.asl.drawing.diagram import END, START, Diagram, Edge, Node

INDENT = "  "


def outline(diagram: Diagram, depth: int = 0) -> Iterator[str]:
    """The lines of the outline, from the start down; what runs within a state stands below it."""
    for node in diagram.nodes:
        yield INDENT * depth + line_of(node, diagram)
        for number, inner in enumerate(node.inner, 1):
            if len(node.inner) > 1:
                yield f"{INDENT * (depth + 1)}branch {number}:"
            yield from outline(inner, depth + 1 + (len(node.inner) > 1))


def line_of(node: Node, diagram: Diagram) -> str:
    """One state."""
    mark = f"{START} " if node.name == diagram.start else ""
    ways = [way_of(edge) for edge in diagram.edges if edge.source == node.name]
    ends = [END] if node.ends else []
    return f"{mark}{node.name} ({node.kind})" + (f" → {', '.join([*ways, *ends])}" if ways or ends else "")


def way_of(edge: Edge) -> str:
    """Where one transition leads to, and what for."""
    return f"{edge.target} [{edge.label}]" if edge.label else edge.target
