"""A machine as a graph: its states in layers from the start down, and the transitions between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from holdfast.asl.definition import Choice, Map, Parallel, Processor, State
from holdfast.asl.definition.states import Working

START = "▶"
END = "■"


class Edge(Struct, frozen=True):
    """A transition, with what it is taken for: nothing, a rule's place, ``default``, or errors."""

    source: str
    target: str
    label: str = ""


class Node(Struct, frozen=True):
    """A state; ``inner`` are the machines that run within it, ``ends`` says that the machine may end there."""

    name: str
    kind: str
    inner: tuple[Diagram, ...] = ()
    ends: bool = False


class Diagram(Struct, frozen=True):
    """The states of one machine, layer by layer; each state is below one that leads to it."""

    layers: tuple[tuple[Node, ...], ...]
    edges: tuple[Edge, ...]
    start: str

    @property
    def nodes(self) -> Iterator[Node]:
        """All states, from the start down."""
        return (node for layer in self.layers for node in layer)


def diagram_of(processor: Processor) -> Diagram:
    """The graph of a machine, a branch or an iteration. The definition is presumed to be valid."""
    edges = tuple(edge for state in processor.states.values() for edge in edges_of(state))
    depths = depths_of(processor, edges)
    count = max(depths.values(), default=-1) + 1
    layers = tuple(
        tuple(node_of(state) for state in processor.states.values() if depths[state.name] == depth)
        for depth in range(count)
    )
    return Diagram(layers, edges, processor.start_at)


def node_of(state: State) -> Node:
    """A state as a node of the graph."""
    match state:
        case Parallel():
            inner = tuple(map(diagram_of, state.branches))
        case Map(processor=Processor() as processor):
            inner = (diagram_of(processor),)
        case _:
            inner = ()
    return Node(state.name, type(state).__name__, inner, ends=state.end or type(state).__name__ in {"Succeed", "Fail"})


def edges_of(state: State) -> Iterator[Edge]:
    """Where a state leads to."""
    if isinstance(state, Choice):
        for place, rule in enumerate(state.rules, 1):
            yield Edge(state.name, rule.next, f"rule {place}")
        if state.default is not None:
            yield Edge(state.name, state.default, "default")
    elif state.next is not None:
        yield Edge(state.name, state.next)
    if isinstance(state, Working):
        for catcher in state.catch:
            yield Edge(state.name, catcher.next, ", ".join(catcher.error_equals))


def depths_of(processor: Processor, edges: tuple[Edge, ...]) -> Mapping[str, int]:
    """The layer of each state: one below the deepest state that leads to it, loops left out."""
    following: dict[str, list[str]] = {name: [] for name in processor.states}
    for edge in edges:
        following[edge.source].append(edge.target)
    order = topological(processor.start_at, following)
    place = {name: number for number, name in enumerate(order)}
    depths = dict.fromkeys(processor.states, 0)
    for name in order:
        for target in following[name]:
            if place[target] > place[name]:
                depths[target] = max(depths[target], depths[name] + 1)
    return depths


def topological(start: str, following: Mapping[str, list[str]]) -> list[str]:
    """The states from the start on, each before those that it leads to; an edge that closes a loop leads back."""
    done: list[str] = []
    seen = {start}
    stack = [(start, iter(following[start]))]
    while stack:
        name, targets = stack[-1]
        target = next((each for each in targets if each not in seen), None)
        if target is None:
            done.append(name)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(following[target])))
    return done[::-1]
