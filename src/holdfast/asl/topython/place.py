"""Where a state is converted, and what becomes of its data: the statements that every kind of state has in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, Struct

from holdfast.asl.definition import Catcher, Choice, Pass, Processor
from holdfast.asl.definition.states import Working
from holdfast.asl.paths import InvalidPath, compiled
from holdfast.asl.topython.code import Body, Brackets, Code, Comment, Line, Prefixed, call, flat, quoted
from holdfast.asl.topython.expressions import Scope, literal, path_code, path_keys, template
from holdfast.asl.topython.jsonata import Bound, evaluated
from holdfast.asl.topython.parts import Parts, Pointer, Unconverted, pointer_text

Goto = Callable[[str], Body]
"""Answers the statements with which the machine goes on at a state."""

CAUGHT = "caught(error)"


class Place(Struct, frozen=True):
    """A state, with what its expressions see and where it leads to. ``frame`` makes a function of states within it."""

    state: Any
    scope: Scope
    pointer: Pointer
    goto: Goto
    frame: Callable[[Processor, str, Pointer, Scope], tuple[str, Body]]

    @property
    def parts(self) -> Parts:
        return self.scope.parts

    def bound(self, **states: str) -> Bound:
        """What JSONata sees."""
        return Bound(self.scope, {"input": "data", **states})

    def value(self, written: Any, field: str, **states: str) -> Code:
        """A field of a JSONata state."""
        return evaluated(written, self.bound(**states), (*self.pointer, field))

    def template(self, written: Any, field: str, root: str) -> Code:
        """A field of a JSONPath state; ``root`` is what ``$`` means in it."""
        return template(written, self.scope.about(root), (*self.pointer, field))

    def path(self, written: str, field: str, root: str) -> Code:
        """The value of a path that is a field."""
        try:
            return path_code(compiled(written), self.scope.about(root))
        except (Unconverted, InvalidPath) as why:
            return self.parts.not_converted((*self.pointer, field), written, str(why))

    def note(self, field: str, original: Any, why: str) -> Comment:
        """Note that a field is not converted, and answer the comment that says so."""
        told = self.parts.remark((*self.pointer, field), original, why)
        return Comment(f"NOT CONVERTED {told.pointer}: {why}\n{told.original}", verbatim=True)

    def lacking(self, original: str) -> Code:
        """What stands for work that a note says is not converted."""
        return call(self.parts.helper("not_converted"), quoted(pointer_text(self.pointer)), quoted(original))

    def on(self) -> Body:
        """How the machine goes on behind the state."""
        return (Line("return ", "data"),) if self.state.next is None else self.goto(self.state.next)


def effective(at: Place) -> Code:
    """What ``InputPath`` selects."""
    path = UNSET if at.state.jsonata else at.state.input_path
    if path is None:
        return "{}"
    return "data" if path is UNSET else at.path(path, "InputPath", "data")


def given(at: Place, root: Code) -> Code:
    """What the work of a state gets: ``Arguments`` or ``Parameters``, else the effective input."""
    state = at.state
    if state.jsonata:
        return root if getattr(state, "arguments", UNSET) is UNSET else at.value(state.arguments, "Arguments")
    return root if state.parameters is UNSET else at.template(state.parameters, "Parameters", flat(root))


def left(at: Place, root: Code, result: Code | None = None) -> Body:
    """The statements that make the output of a state and assign its variables."""
    state = at.state
    if state.jsonata:
        states = {} if result is None else {"result": flat(result)}
        assigned = {} if state.assign is UNSET else _values(at, state.assign, "Assign", states)
        default = "data" if result is None else result
        return _set(assigned, default if state.output is UNSET else at.value(state.output, "Output", **states))
    about = flat(root if result is None else result)
    assigned = {} if state.assign is UNSET else _templates(at, state.assign, "Assign", about)
    output: Code = root
    if isinstance(state, Working | Pass):
        made: Code = root if result is None else result
        if isinstance(state, Working) and state.result_selector is not UNSET:
            made = at.template(state.result_selector, "ResultSelector", flat(made))
        output = combined(at, state.result_path, made)
    return (*_set(assigned, output), *_selected(at))


def _selected(at: Place) -> Body:
    path = at.state.output_path
    if path is UNSET or path == "$":
        return ()
    return (Line("data = ", "{}" if path is None else at.path(path, "OutputPath", "data")),)


def decided(at: Place, assign: Any, output: Any, pointer: Pointer) -> Body:
    """The same for a rule of a Choice, or for its default."""
    at = Place(at.state, at.scope, pointer, at.goto, at.frame)
    if isinstance(at.state, Choice) and at.state.jsonata:
        assigned = {} if assign is UNSET else _values(at, assign, "Assign", {})
        return _set(assigned, "data" if output is UNSET else at.value(output, "Output"))
    assigned = {} if assign is UNSET else _templates(at, assign, "Assign", "data")
    return (*_set(assigned, "data"), *_selected(at))


def taken(at: Place, catcher: Catcher, number: int) -> Body:
    """The statements of a catcher, before the machine goes on at its state."""
    at.parts.helper("caught")
    at = Place(at.state, at.scope, (*at.pointer, "Catch", number), at.goto, at.frame)
    if at.state.jsonata:
        states = {"errorOutput": CAUGHT}
        output = CAUGHT if catcher.output is UNSET else at.value(catcher.output, "Output", **states)
        return _set(_values(at, catcher.assign, "Assign", states), output)
    assigned = _templates(at, catcher.assign, "Assign", CAUGHT)
    return _set(assigned, combined(at, catcher.result_path, CAUGHT))


def combined(at: Place, path: Any, result: Code) -> Code:
    """The input with the result at a reference path."""
    if path is None:
        return "data"
    if path is UNSET or path == "$":
        return result
    keys = path_keys(compiled(path))
    match keys:
        case (str(key),):
            return Brackets("data | {", (Prefixed(f"{quoted(key)}: ", result),), "}")
        case _:
            return call(at.parts.helper("put"), "data", result, *map(literal, keys))


def _values(at: Place, assign: Mapping[str, Any], field: str, states: dict[str, str]) -> dict[str, Code]:
    bound = at.bound(**states)
    return {
        at.scope.variables[name]: evaluated(each, bound, (*at.pointer, field, name)) for name, each in assign.items()
    }


def _templates(at: Place, assign: Mapping[str, Any], field: str, root: str) -> dict[str, Code]:
    made: dict[str, Code] = {}
    for name, value in assign.items():
        whole = template({name: value}, at.scope.about(root), (*at.pointer, field))
        assert isinstance(whole, Brackets)
        (item,) = whole.items
        assert isinstance(item, Prefixed)
        made[at.scope.variables[name.removesuffix(".$")]] = item.code
    return made


def _set(assigned: Mapping[str, Code], output: Code) -> Body:
    """Assignments of variables and of the data. All see the values of before."""
    targets = dict(assigned) | ({} if output == "data" else {"data": output})
    if any(mentions(code, name) for name in assigned for other, code in targets.items() if other != name):
        values = Brackets("(", tuple(targets.values()), ")")
        return (Line(f"{', '.join(targets)} = ", ", ".join(map(flat, values.items))),)
    return tuple(Line(f"{name} = ", code) for name, code in targets.items())


def mentions(code: Code, name: str) -> bool:
    """Whether code reads a name."""
    return re.search(rf"\b{name}\b", flat(code)) is not None


def is_computed(code: Code) -> bool:
    """Whether code may fail when it runs: anything but names and literals."""
    return "[" in flat(code) or "(" in flat(code)
