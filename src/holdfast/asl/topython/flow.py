"""The order of states as structured code: ``if``, ``try`` and ``while`` where they fit, else a loop over the states.

A state is written once. Where paths meet again, the code behind the branching goes on; where they lead back, it is in a
loop. What would have to be written twice, or jumped into, is a loop with a ``match`` over the names of the states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

from holdfast.asl.definition import Choice, Processor, State
from holdfast.asl.definition.states import Working
from holdfast.asl.topython.code import BREAK, CONTINUE, Body, Comment, Compound, Line, Suite, quoted

Write = Callable[[str, Callable[[str], Body]], Body]
"""Writes a state; the function answers how the machine goes on at another one."""

LONG_LOOP: Final = Comment(
    "The machine continued as new by itself. If this loops for thousands of times, call hf.continue_as_new(...)."
)


class _Unstructured(Exception):
    """Paths meet where no ``if``, ``try`` or ``while`` ends."""


def edges_of(state: State) -> list[str]:
    """Where a state leads to, a state as often as there are ways to it."""
    found: list[str | None] = []
    if isinstance(state, Choice):
        found = [*(rule.next for rule in state.rules), state.default]
    else:
        found.append(state.next)
    if isinstance(state, Working):
        found += [catcher.next for catcher in state.catch]
    return [each for each in found if each is not None]


def body_of(processor: Processor, write: Write, undo: Callable[[], Callable[[], None]]) -> Body:
    """All states of a frame. ``undo`` answers a function that takes back what was written since."""
    flow = _Flow({name: edges_of(state) for name, state in processor.states.items()}, write, undo)
    back = undo()
    try:
        return flow.on(processor.start_at, {})
    except _Unstructured:
        back()
        return _state_loop(processor, write)


Stops = Mapping[str, Body | None]
"""States at which code ends by itself: by nothing if it goes on behind, or by a jump. ``None`` is out of reach."""


class _Flow:
    def __init__(self, graph: Mapping[str, list[str]], write: Write, undo: Callable[[], Callable[[], None]]) -> None:
        self._graph = graph
        self._write = write
        self._undo = undo
        self._done: set[str] = set()

    def on(self, name: str, stops: Stops) -> Body:
        """The machine from a state on."""
        whole: Body = ()
        following: str | None = name
        while following is not None:
            if following in stops:
                end = stops[following]
                if end is None:
                    raise _Unstructured
                return (*whole, *end)
            if following in self._done:
                raise _Unstructured
            if self._returns(following, stops):
                return (*whole, *self._loop(following, stops))
            part, following = self._plain(following, stops)
            whole = (*whole, *part)
        return whole

    def _plain(self, name: str, stops: Stops) -> tuple[Body, str | None]:
        """A state with all that branches off, and the state at which the branches meet, if they do."""
        self._done.add(name)
        meeting = self._meeting(self._graph[name], stops)
        if meeting is None:
            return self._write(name, lambda target: self.on(target, stops)), None
        within: Stops = {stop: end or None for stop, end in stops.items()} | {meeting: ()}
        return self._write(name, lambda target: self.on(target, within)), meeting

    def _meeting(self, targets: Sequence[str], stops: Stops) -> str | None:
        """The state at which paths by several ways meet, all of them."""
        ways = [target for target in targets if target not in stops]
        if len(ways) == len(targets) == 1:
            return ways[0]
        reached = [self._reached([way], stops) for way in ways]
        shared = [state for state in self._graph if sum(state in each for each in reached) > 1]
        for state in shared:
            apart = [self._reached([way], {**stops, state: None}) for way in ways if way != state]
            if not any(one & other for one, other in combinations(apart, 2)):
                return state
        if shared:
            raise _Unstructured
        return None

    def _reached(self, begin: Iterable[str], stops: Stops) -> set[str]:
        found: set[str] = set()
        waiting = [each for each in begin if each not in stops]
        while waiting:
            if (name := waiting.pop()) not in found:
                found.add(name)
                waiting += [each for each in self._graph[name] if each not in stops]
        return found

    def _returns(self, name: str, stops: Stops) -> bool:
        return name in self._reached(self._graph[name], stops)

    def _loop(self, name: str, stops: Stops) -> Body:
        inside = {each for each in self._reached([name], stops) if name in self._reached(self._graph[each], stops)}
        exits = [each for state in self._graph if state in inside for each in self._graph[state] if each not in inside]
        beyond: Stops = dict.fromkeys(stops)
        for end in [*dict.fromkeys(exits), None]:
            done, back = set(self._done), self._undo()
            try:
                within = {**beyond, name: (CONTINUE,)} | ({} if end is None else {end: (BREAK,)})
                first, meeting = self._plain(name, within)
                rest = () if meeting is None else self.on(meeting, within)
                body = _without_last_jump((*first, *rest))
                loop = Compound((Suite(Line("while ", "True"), body),))
                behind = () if end is None else self.on(end, stops)
            except _Unstructured:
                self._done = done
                back()
            else:
                return (LONG_LOOP, loop, *behind)
        raise _Unstructured


def _without_last_jump(body: Body) -> Body:
    """The body of a loop without the ``continue`` at its very end."""
    return body[:-1] if body[-1:] == (CONTINUE,) else body


def _state_loop(processor: Processor, write: Write) -> Body:
    """A loop that does one state at a time."""

    def goto(name: str) -> Body:
        return (Line("state = ", quoted(name)),)

    cases = [Suite(Line("case ", quoted(name)), write(name, goto)) for name in processor.states]
    match = Compound((Suite(Line("match ", "state"), tuple(Compound((case,)) for case in cases)),))
    return (
        LONG_LOOP,
        Line("state = ", quoted(processor.start_at)),
        Compound((Suite(Line("while ", "True"), (match,)),)),
    )
