"""Rules for the graph of states: each target exists, each state is reached, and one of them is the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.asl.validation.diagnostic import MISSING_END, MISSING_TARGET, Path
from holdfast.asl.validation.kinds import is_list, is_object
from holdfast.asl.validation.visit import Visit

Edge = tuple[Path, str]
"""Where a transition is written, below its state, and the state it leads to."""


def check_graph(visit: Visit, at: Path, machine: Mapping[str, Any]) -> None:
    """Compare the transitions of a machine, a branch or a processor with its states, if it begins anywhere."""
    states = machine.get("States")
    if not is_object(states) or not states:
        return
    start = machine.get("StartAt")
    if not isinstance(start, str):
        return
    edges = {name: list(transitions(state)) for name, state in states.items()}
    if start not in states:
        visit.report((*at, "StartAt"), f"Missing 'Next' target: {start}", MISSING_TARGET)
    for name, targets in edges.items():
        for written, target in targets:
            if target not in states:
                visit.report((*at, "States", name, *written), f"Missing 'Next' target: {target}", MISSING_TARGET)
    for name in unreachable(start, edges):
        visit.report((*at, "States", name), f'State "{name}" is not reachable.', MISSING_TARGET)
    if not any(is_terminal(state) for state in states.values()):
        visit.report(at or None, "Workflow has no terminal state", MISSING_END)


def transitions(state: Any) -> Iterator[Edge]:
    """Where a state leads to."""
    if not is_object(state):
        return
    for field in ("Next", "Default"):
        if isinstance(state.get(field), str):
            yield (field,), state[field]
    for field in ("Choices", "Catch"):
        entries = state.get(field)
        for place, entry in enumerate(entries if is_list(entries) else ()):
            if is_object(entry) and isinstance(entry.get("Next"), str):
                yield (field, place, "Next"), entry["Next"]


def unreachable(start: str, edges: Mapping[str, list[Edge]]) -> list[str]:
    """The states that no other leads to, and those that lead to one another only.

    What comes after an unreachable state is not reported again, as Step Functions has it.
    """
    led_to = {target for name, targets in edges.items() for _, target in targets if target != name}
    alone = [name for name in edges if name not in led_to and name != start]
    reached = closure([start, *alone], edges)
    return alone + [name for name in edges if name not in reached]


def closure(roots: list[str], edges: Mapping[str, list[Edge]]) -> set[str]:
    """The states that are reached from others, these included."""
    reached: set[str] = set()
    waiting = [root for root in roots if root in edges]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [target for _, target in edges[name] if target in edges]
    return reached


def is_terminal(state: Any) -> bool:
    """Whether a machine may end in a state."""
    return is_object(state) and (state.get("End") is True or state.get("Type") in ("Succeed", "Fail"))
