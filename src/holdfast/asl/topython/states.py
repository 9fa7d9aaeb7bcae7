"""Each kind of state as statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec import UNSET

from holdfast.asl.definition import Choice, Fail, Parallel, Pass, Succeed, Task, Wait
from holdfast.asl.topython import conditions, jsonata, working
from holdfast.asl.topython.code import Body, Code, Compound, Line, Suite, call, ends, flat, joined, quoted
from holdfast.asl.topython.expressions import computed, literal
from holdfast.asl.topython.place import Place, decided, effective, given, is_computed, left


def statements(at: Place) -> Body:
    """A state, and how the machine goes on behind it."""
    match at.state:
        case Pass():
            return _passed(at)
        case Succeed():
            return joined((*left(at, effective(at)), Line("return ", "data")))
        case Choice():
            return _chosen(at)
        case Fail():
            return (_failed(at),)
        case Wait():
            return _waited(at)
        case Task():
            return working.worked(at)
        case Parallel():
            return working.branched(at)
        case _:
            return working.mapped(at)


# ── Without work ────────────────────────────────────────────────────────────────────────────────────────────────────


def _passed(at: Place) -> Body:
    root, state = effective(at), cast("Pass", at.state)
    if state.jsonata:
        return joined((*left(at, root), *at.on()))
    result = given(at, root) if state.result is UNSET else literal(state.result)
    if state.assign is UNSET or not is_computed(result):
        return joined((*left(at, root, result), *at.on()))
    return joined((Line("result = ", result), *left(at, root, "result"), *at.on()))


def _failed(at: Place) -> Line:
    state = cast("Fail", at.state)
    root = effective(at)
    error, cause = _told(at, "Error", flat(root)), _told(at, "Cause", flat(root))
    if state.error is not None and error == quoted(state.error) and not state.error.startswith("States."):
        return Line("raise ", call(at.parts.error(state.error), *([] if cause is None else [cause])))
    return Line("raise ", call(at.parts.helper("hf.asl.Error"), error or "None", *([] if cause is None else [cause])))


def _told(at: Place, field: str, root: str) -> Code | None:
    written, path = getattr(at.state, field.lower()), getattr(at.state, f"{field.lower()}_path")
    if path is not None:
        return computed(path, at.scope.about(root), (*at.pointer, f"{field}Path"))
    if written is None:
        return None
    return at.value(written, field) if at.state.jsonata else quoted(written)


def _waited(at: Place) -> Body:
    state, root = cast("Wait", at.state), effective(at)
    if state.seconds is not None:
        seconds = at.value(state.seconds, "Seconds") if state.jsonata else literal(state.seconds)
    elif state.seconds_path is not None:
        seconds = at.path(state.seconds_path, "SecondsPath", flat(root))
    elif state.timestamp_path is not None:
        moment = at.path(state.timestamp_path, "TimestampPath", flat(root))
        seconds = call(at.parts.helper("until"), moment)
    else:
        moment = at.value(state.timestamp, "Timestamp") if state.jsonata else quoted(state.timestamp or "")
        seconds = call(at.parts.helper("until"), moment)
    return (Line("await ", call("hf.sleep", seconds)), *joined((*left(at, root), *at.on())))


def _chosen(at: Place) -> Body:
    state, root = cast("Choice", at.state), effective(at)
    begin: Body = () if root == "data" else (Line("data = ", root),)
    suites: list[Suite] = []
    for number, rule in enumerate(state.rules):
        pointer = (*at.pointer, "Choices", number)
        if state.jsonata:
            test = jsonata.condition(rule.test["Condition"], at.bound(), (*pointer, "Condition"))
        else:
            test = conditions.condition(rule.test, at.scope, pointer)
        body = joined((*decided(at, rule.assign, rule.output, pointer), *at.goto(rule.next)))
        suites.append(Suite(Line("elif " if suites else "if ", test), body))
    if state.default is None:
        told = quoted("no rule of the Choice holds, and it has no default")
        otherwise: Body = (Line("raise ", call(at.parts.helper("hf.asl.Error"), '"States.NoChoiceMatched"', told)),)
    else:
        otherwise = joined((*decided(at, state.assign, state.output, at.pointer), *at.goto(state.default)))
    return (*begin, *branching(suites, otherwise))


def branching(suites: Sequence[Suite], otherwise: Body) -> Body:
    """An ``if`` with what is done otherwise; without an ``else`` where nothing else comes there."""
    if len(suites) == 1 and not suites[0].body and otherwise:
        only = suites[0].head
        return (Compound((Suite(Line("if ", conditions.negated(only.code)), otherwise),)),)
    if all(ends(each.body) for each in suites):
        return (Compound(tuple(suites)), *otherwise)
    return (Compound((*suites, *([Suite(Line("else"), otherwise)] if otherwise else []))),)
