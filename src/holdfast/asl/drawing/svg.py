"""A machine as an SVG: boxes in layers, transitions as curves, branches and iterations in boxes of their own.

Every size follows from the text alone, so the same definition makes the same file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape
from typing import Final

from msgspec import Struct

from holdfast.asl.drawing.diagram import Diagram, Edge, Node

CHARACTER: Final = 7.2
"""The width of a character of 12 pixels in a common typeface, on the wide side."""
PADDING: Final = 14.0
LINE: Final = 18.0
GAP: Final = 28.0
LAYER_GAP: Final = 46.0
ROUNDED: Final = 6

COLOURS: Final = {
    "Task": "#e8f1fb",
    "Choice": "#fdf3da",
    "Wait": "#f1ecfa",
    "Succeed": "#e2f5e6",
    "Fail": "#fbe4e4",
    "Parallel": "#f6f7f9",
    "Map": "#f6f7f9",
}
MARKED: Final = "#2563eb"

STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#1f2933}.kind{fill:#66727f;font-size:10px}"
    ".label{fill:#66727f;font-size:10px}.edge{fill:none;stroke:#66727f}"
)
ARROW: Final = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#66727f"/></marker>'
)


class Size(Struct, frozen=True):
    """Width and height, in pixels."""

    width: float
    height: float


class Box(Struct, frozen=True):
    """Where a state is drawn: its upper left corner, its size, and how far down its layer goes."""

    node: Node
    x: float
    y: float
    size: Size
    floor: float

    @property
    def middle(self) -> float:
        """The place of its centre from the left."""
        return self.x + self.size.width / 2


def svg(diagram: Diagram, marked: Collection[str] = ()) -> str:
    """The picture. The states whose names are ``marked`` have a bold frame: where an execution stands."""
    size = size_of(diagram)
    width, height = size.width + 2 * PADDING, size.height + 2 * PADDING
    parts = "\n".join(drawn(diagram, PADDING, PADDING, frozenset(marked)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">\n<style>{STYLE}</style>\n<defs>{ARROW}</defs>\n{parts}\n</svg>\n'
    )


def size_of(diagram: Diagram) -> Size:
    """The room that a machine takes."""
    layers = [[size_of_node(node) for node in layer] for layer in diagram.layers]
    width = max(sum(each.width for each in layer) + GAP * (len(layer) - 1) for layer in layers)
    height = sum(max(each.height for each in layer) for layer in layers) + LAYER_GAP * (len(layers) - 1)
    return Size(width + GAP, height)


def size_of_node(node: Node) -> Size:
    """The room that a state takes, with what runs within it."""
    texts = Size(max(len(node.name), len(node.kind)) * CHARACTER + 2 * PADDING, 2 * LINE + PADDING)
    if not node.inner:
        return texts
    inner = [size_of(each) for each in node.inner]
    width = sum(each.width for each in inner) + GAP * (len(inner) - 1) + 2 * PADDING
    return Size(max(width, texts.width), texts.height + max(each.height for each in inner) + PADDING)


def drawn(diagram: Diagram, left: float, top: float, marked: frozenset[str]) -> Iterator[str]:
    """The elements of a machine whose upper left corner is given."""
    boxes = {box.node.name: box for box in placed(diagram, left, top)}
    for edge in diagram.edges:
        yield from drawn_edge(edge, boxes, left + size_of(diagram).width)
    for box in boxes.values():
        yield from drawn_box(box, marked)


def placed(diagram: Diagram, left: float, top: float) -> Iterator[Box]:
    """Where the states are drawn: each layer centred below the one before."""
    whole = size_of(diagram).width - GAP
    for layer in diagram.layers:
        sizes = [size_of_node(node) for node in layer]
        x = left + (whole - sum(size.width for size in sizes) - GAP * (len(sizes) - 1)) / 2
        floor = top + max(size.height for size in sizes)
        for node, size in zip(layer, sizes, strict=True):
            yield Box(node, x, top, size, floor)
            x += size.width + GAP
        top = floor + LAYER_GAP


def drawn_box(box: Box, marked: frozenset[str]) -> Iterator[str]:
    """A state, and what runs within it."""
    node = box.node
    stroke = f'stroke="{MARKED}" stroke-width="3"' if node.name in marked else 'stroke="#9aa5b1"'
    fill = COLOURS.get(node.kind, "#ffffff")
    yield (
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.size.width:g}" height="{box.size.height:g}" rx="{ROUNDED}" '
        f'fill="{fill}" {stroke}/>'
    )
    yield text(box.middle, box.y + LINE, node.name, "")
    yield text(box.middle, box.y + 2 * LINE, node.kind, "kind")
    x = box.x + PADDING
    for inner in node.inner:
        yield from drawn(inner, x, box.y + 2 * LINE + PADDING, marked)
        x += size_of(inner).width + GAP


def drawn_edge(edge: Edge, boxes: dict[str, Box], right: float) -> Iterator[str]:
    """A transition: a curve down to a lower layer, else around the right side."""
    source, target = boxes[edge.source], boxes[edge.target]
    x, y = source.middle, source.y + source.size.height
    if target.y > source.y:
        floor, middle = source.floor, target.middle
        bend = (target.y - floor) / 2
        path = f"M{x:g} {y:g}V{floor:g}C{x:g} {floor + bend:g} {middle:g} {target.y - bend:g} {middle:g} {target.y:g}"
        label = ((x + middle) / 2, (floor + target.y) / 2)
    else:
        x, y = source.x + source.size.width, source.y + source.size.height / 2
        end, side = target.y + target.size.height / 2, right
        path = f"M{x:g} {y:g}C{side:g} {y:g} {side:g} {end:g} {target.x + target.size.width:g} {end:g}"
        label = (side - GAP / 2, (y + end) / 2)
    yield f'<path class="edge" d="{path}" marker-end="url(#arrow)"/>'
    if edge.label:
        yield text(*label, edge.label, "label")


def text(x: float, y: float, content: str, kind: str) -> str:
    """A line of text, centred."""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle"{named}>{escape(content)}</text>'
