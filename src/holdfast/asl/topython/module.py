"""The module that is written for a machine: its errors, its steps, the helpers that it needs, and the workflow."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.asl.definition import Choice, Machine, Processor
from holdfast.asl.definition.states import Working
from holdfast.asl.topython import flow
from holdfast.asl.topython.code import (
    Body,
    Code,
    Comment,
    Compound,
    Line,
    Prefixed,
    Suite,
    call,
    flat,
    quoted,
    rendered,
)
from holdfast.asl.topython.expressions import ORIGINAL, Context, Scope
from holdfast.asl.topython.names import printable
from holdfast.asl.topython.parts import Parts, Pointer, Remark
from holdfast.asl.topython.place import Place
from holdfast.asl.topython.ready_functions import HELPERS, IMPORTS, NEEDS
from holdfast.asl.topython.states import statements

_SIGNATURE: Final = "(data: Any) -> Any"


class Converted(Struct, frozen=True):
    """The text of the module, and what it leaves to you."""

    text: str
    remarks: tuple[Remark, ...]


def to_python(machine: Machine, name: str) -> Converted:
    """A machine as a module with a workflow of the same name. The definition is presumed to be valid."""
    parts = Parts(name)
    context: Context = {
        ("Execution", "Input"): ORIGINAL,
        ("Execution", "Name"): "hf.current().id",
        ("StateMachine", "Name"): quoted(name),
    }
    scope = Scope(parts, "data", context, {})
    body = _Frames(parts).body(machine.processor, (), scope)
    if comment := json.loads(machine.text).get("Comment"):
        body = (Comment(printable(comment)), *body)
    if ORIGINAL in parts.helpers:
        body = (Line(f"{ORIGINAL} = ", "data"), *body)
    limit = "" if machine.timeout_seconds is None else f"(timeout={machine.timeout_seconds})"
    main = (Line(f"@app.workflow{limit}"), _function(parts.workflow, body))
    text = "\n".join([*_head(parts), *_steps(parts), "", "", *rendered(main)]) + "\n"
    ast.parse(text)  # a module that cannot be read is a bug of ours, and not to be handed on
    return Converted(text, tuple(parts.remarks))


def _function(name: str, body: Body) -> Compound:
    return Compound((Suite(Line(f"async def {name}{_SIGNATURE}"), body),))


class _Frames:
    """Writes machines and the machines within their states, as functions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def body(self, processor: Processor, pointer: Pointer, scope: Scope) -> Body:
        """All states of a frame."""
        own = {name: self._parts.names.function(name) for name in assigned_in(processor)}
        scope = replace(scope, variables={**scope.variables, **own})

        def write(name: str, goto: Any) -> Body:
            state = processor.states[name]
            context = {**scope.context, ("State", "Name"): quoted(name)}
            where = (*pointer, "States", name)
            at = Place(state, replace(scope, context=context), where, goto, self.function)
            return (Comment(printable(name)), *statements(at))

        return flow.body_of(processor, write, self._parts.snapshot)

    def function(self, processor: Processor, wanted: str, pointer: Pointer, scope: Scope) -> tuple[str, Body]:
        """A function for a frame, and its definition; a frame that only calls a step is that step."""
        context = {keys: name for keys, name in scope.context.items() if keys[0] != "Map"}
        body = self.body(processor, pointer, replace(scope, root="data", context=context))
        match body:
            case (Comment(), Line("return ", Prefixed("await ", work))) if flat(work).endswith("(data)"):
                if (step := flat(work).removesuffix("(data)")) in self._parts.steps.values():
                    return step, ()
            case _:
                pass
        name = self._parts.names.function(wanted)
        return name, (_function(name, body),)


def assigned_in(processor: Processor) -> Iterator[str]:
    """The variables that states of a frame assign, those of frames within it not."""
    found: dict[str, None] = {}
    for state in processor.states.values():
        sources: list[Any] = [state.assign]
        if isinstance(state, Choice):
            sources += [rule.assign for rule in state.rules]
        if isinstance(state, Working):
            sources += [catcher.assign for catcher in state.catch]
        for source in sources:
            if source is not UNSET:
                found |= dict.fromkeys(name.removesuffix(".$") for name in source)
    return iter(found)


def _head(parts: Parts) -> Iterator[str]:
    needed = set(parts.helpers)
    for helper in parts.helpers:
        needed |= {*NEEDS.get(helper, ())}
    yield '"""A state machine as a workflow. Its steps are yours to write."""'
    yield ""
    yield from _imports({each for helper in needed for each in IMPORTS.get(helper, ())})
    yield "import holdfast as hf"
    yield ""
    yield f"app = hf.App({quoted(parts.workflow)})"
    yield ""
    yield "ONCE = hf.Retry(max_attempts=1)"
    for error, cls in parts.errors.items():
        yield from ("", "", f"class {cls}(Exception):")
        if error == cls:
            yield '    """An error of the machine."""'
        else:
            yield from rendered((Line("error = ", quoted(error)),), "    ")
    yield from ("", "") if parts.errors else ("",)
    raised = ["hf.asl.Error", *parts.errors.values()]
    yield from rendered((Line("ERRORS = ", call("", *raised) if len(raised) > 1 else "(hf.asl.Error,)"),))
    for helper in sorted(needed & HELPERS.keys(), key=list(HELPERS).index):
        yield from _apart(HELPERS[helper])


def _imports(wanted: set[str]) -> Iterator[str]:
    plain = sorted(each for each in wanted if each.startswith("import "))
    names = sorted(each.removeprefix("from collections.abc import ") for each in wanted if "collections.abc" in each)
    yield from plain
    if names:
        yield f"from collections.abc import {', '.join(sorted(', '.join(names).split(', ')))}"
    yield from (each for each in sorted(wanted) if each.startswith("from datetime"))
    yield from ("from typing import Any", "")


def _apart(text: str) -> Iterator[str]:
    lines = text.strip().splitlines()
    yield from ("",) if lines[0].startswith("BROKEN") else ("", "")
    yield from lines


def _steps(parts: Parts) -> Iterator[str]:
    first: Mapping[str, str] = {}
    for step, name in parts.steps.items():
        options: list[Code] = [Prefixed("retry=", step.retry), "raises=ERRORS", *step.limits]
        own = first.get(step.resource)
        work = f"await {own}.function(given)" if own else ""
        body: Body = (Line("return ", work),) if own else (_comment(step.resource), _unwritten(name))
        first = {step.resource: name, **first}
        yield from ("", "")
        head = Line("async def ", f"{name}(given: Any) -> Any")
        yield from rendered((Line("@", call("app.step", *options)), Compound((Suite(head, body),))))


def _comment(resource: str) -> Comment:
    return Comment(printable(resource), verbatim=True)


def _unwritten(name: str) -> Line:
    return Line("raise ", call("NotImplementedError", quoted(name)))
