"""A machine as an SVG: boxes in layers, transitions as curves, branches and iterations in boxes of their own.

Every size follows from the text alone, so the same definition makes the same file. It has attributes and no style
sheet, so a page may contain it whose policy forbids styles of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from msgspec import Struct

from holdfast.asl.drawing.diagram import Diagram, Edge, Node
from holdfast.asl.drawing.marks import Mark
from holdfast.texts import printable

NO_MARKS: Final[Mapping[str, Mark]] = {}
LONGEST_MARK: Final = max(len(mark.value) for mark in Mark) + len(" · ")

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
FRAMES: Final = {
    Mark.CURRENT: 'stroke="#1d4ed8" stroke-width="3"',
    Mark.LEFT: 'stroke="#15803d" stroke-width="1.5"',
    Mark.FAILED: 'stroke="#b91c1c" stroke-width="3" stroke-dasharray="2 2"',
    Mark.STOPPED: 'stroke="#52606d" stroke-width="2" stroke-dasharray="7 4"',
}
"""The frame of a state that an execution has entered; any other has a thin grey one."""
UNMARKED: Final = 'stroke="#9aa5b1"'

INK: Final = "#1f2933"
QUIET: Final = "#52606d"
SMALL: Final = f'font-size="10" fill="{QUIET}"'
ARROW: Final = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#52606d"/></marker>'
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


def svg(diagram: Diagram, marks: Mapping[str, Mark] = NO_MARKS) -> str:
    """The picture. ``marks`` say what has become of states in an execution: in their frames, and in words."""
    size = size_of(diagram)
    width, height = size.width + 2 * PADDING, size.height + 2 * PADDING
    parts = "\n".join(drawn(diagram, PADDING, PADDING, marks))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="system-ui,sans-serif" font-size="12" fill="{INK}">\n'
        f"<defs>{ARROW}</defs>\n{parts}\n</svg>\n"
    )


def size_of(diagram: Diagram) -> Size:
    """The room that a machine takes."""
    layers = [[size_of_node(node) for node in layer] for layer in diagram.layers]
    width = max(sum(each.width for each in layer) + GAP * (len(layer) - 1) for layer in layers)
    height = sum(max(each.height for each in layer) for layer in layers) + LAYER_GAP * (len(layers) - 1)
    return Size(width + GAP, height)


def size_of_node(node: Node) -> Size:
    """The room that a state takes, with what runs within it."""
    texts = Size(max(len(node.name), len(node.kind) + LONGEST_MARK) * CHARACTER + 2 * PADDING, 2 * LINE + PADDING)
    if not node.inner:
        return texts
    inner = [size_of(each) for each in node.inner]
    width = sum(each.width for each in inner) + GAP * (len(inner) - 1) + 2 * PADDING
    return Size(max(width, texts.width), texts.height + max(each.height for each in inner) + PADDING)


def drawn(diagram: Diagram, left: float, top: float, marks: Mapping[str, Mark]) -> Iterator[str]:
    """The elements of a machine whose upper left corner is given."""
    boxes = {box.node.name: box for box in placed(diagram, left, top)}
    for edge in diagram.edges:
        yield from drawn_edge(edge, boxes, left + size_of(diagram).width)
    for box in boxes.values():
        yield from drawn_box(box, marks)


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


def drawn_box(box: Box, marks: Mapping[str, Mark]) -> Iterator[str]:
    """A state, and what runs within it."""
    node = box.node
    mark = marks.get(node.name)
    frame = UNMARKED if mark is None else FRAMES[mark]
    told = node.kind if mark is None else f"{node.kind} · {mark.value}"
    fill = COLOURS.get(node.kind, "#ffffff")
    yield (
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.size.width:g}" height="{box.size.height:g}" rx="{ROUNDED}" '
        f'fill="{fill}" {frame}/>'
    )
    yield text(box.middle, box.y + LINE, node.name)
    yield text(box.middle, box.y + 2 * LINE, told, SMALL)
    x = box.x + PADDING
    for inner in node.inner:
        yield from drawn(inner, x, box.y + 2 * LINE + PADDING, marks)
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
    yield f'<path class="edge" fill="none" stroke="{QUIET}" d="{path}" marker-end="url(#arrow)"/>'
    if edge.label:
        yield text(*label, edge.label, SMALL)


def text(x: float, y: float, content: str, style: str = "") -> str:
    """A line of text, centred."""
    styled = f" {style}" if style else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle"{styled}>{escape(printable(content))}</text>'
