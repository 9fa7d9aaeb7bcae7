"""The data of one state, from its input to its output: what every kind of state has in common.

JSONPath: ``InputPath`` → ``Parameters`` → (work) → ``Assign``, ``ResultSelector`` → ``ResultPath`` → ``OutputPath``.
JSONata: ``Arguments`` → (work) → ``Assign``, ``Output``. An execution and ``TestState`` use the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType

from holdfast.asl.definition import Catcher, Choice, ChoiceRule, Map, Parallel, Pass, Task
from holdfast.asl.definition.states import Working
from holdfast.asl.errors import RESULT_PATH_MATCH_FAILURE, EvaluationError, StatesError
from holdfast.asl.jsontext import compact, is_array, is_object
from holdfast.asl.paths import InvalidPath, read_definite, reference_keys
from holdfast.asl.templates import evaluated, filled
from holdfast.asl.visit import Visit

NO_FIELDS: Mapping[str, Any] = {}


class Left(Struct, frozen=True):
    """How a state is left: its output, the variables that it has assigned, and the next state if it names one."""

    output: Any
    assigned: Mapping[str, Any] = NO_FIELDS
    next: str | None = None


def effective_input(visit: Visit) -> Any:
    """The part of the input that the state works on: what ``InputPath`` selects. Raises ``EvaluationError``."""
    state = visit.state
    if state.jsonata:
        return visit.input
    value = _selected(state.input_path, visit.input, visit)
    visit.note("afterInputPath", value)
    return value


def arguments(visit: Visit, effective: Any) -> Any:
    """What the work of the state is given: ``Parameters`` or ``Arguments``, else the effective input."""
    state = visit.state
    if not isinstance(state, Working | Pass):
        return effective
    if state.jsonata:
        if not isinstance(state, Working) or state.arguments is UNSET:
            return effective
        value = evaluated(state.arguments, visit, "Arguments")
        visit.note("afterArguments", value)
        return value
    if state.parameters is UNSET:
        visit.note("afterParameters", effective)
        return effective
    value = filled(state.parameters, visit.about(effective), visit.randomness)
    visit.note("afterParameters", value)
    return value


def left(visit: Visit, effective: Any, result: Any = UNSET) -> Left:
    """How the state is left after its work. Raises ``EvaluationError``.

    ``result`` is what the work has made, if the state has work: then it is the output, else the input is.
    """
    if visit.state.jsonata:
        return _left_by_jsonata(visit, result, visit.state.assign, visit.state.output)
    return _left_by_jsonpath(visit, effective, result)


def _left_by_jsonpath(visit: Visit, effective: Any, result: Any) -> Left:
    state = visit.state
    about = effective if result is UNSET else result
    assigned: Any = {} if state.assign is UNSET else filled(state.assign, visit.about(about), visit.randomness)
    output = effective
    if isinstance(state, Pass | Task | Parallel | Map):
        if isinstance(state, Working) and state.result_selector is not UNSET:
            result = filled(state.result_selector, visit.about(result), visit.randomness)
        if isinstance(state, Working):
            visit.note("afterResultSelector", result)
        output = combined(state.result_path, visit.input, result)
        visit.note("afterResultPath", output)
    output = _selected(state.output_path, output, visit)
    return Left(output, assigned, state.next)


def _left_by_jsonata(visit: Visit, result: Any, assign: dict[str, Any] | UnsetType, template: Any) -> Left:
    if result is not UNSET:
        visit = visit.with_result(result)
    assigned: Any = {} if assign is UNSET else evaluated(assign, visit, "Assign")
    if template is not UNSET:
        output = evaluated(template, visit, "Output")
    else:
        output = visit.input if result is UNSET else result
    return Left(output, assigned, visit.state.next)


def decided(visit: Visit, effective: Any, rule: ChoiceRule | None) -> Left:
    """How a Choice is left by a rule that holds, or by its default. Raises ``EvaluationError``."""
    state = cast("Choice", visit.state)
    assign = state.assign if rule is None else rule.assign
    following = state.default if rule is None else rule.next
    if state.jsonata:
        template = state.output if rule is None else rule.output
        by = _left_by_jsonata(visit, UNSET, assign, template)
        return Left(by.output, by.assigned, following)
    assigned: Any = {} if assign is UNSET else filled(assign, visit.about(effective), visit.randomness)
    return Left(_selected(state.output_path, effective, visit), assigned, following)


def caught(visit: Visit, catcher: Catcher, error: StatesError) -> Left:
    """How a state is left by a catcher. Raises ``EvaluationError``."""
    visit = visit.with_error(error.output)
    if visit.state.jsonata:
        assigned = evaluated(catcher.assign, visit, "Assign")
        output = error.output if catcher.output is UNSET else evaluated(catcher.output, visit, "Output")
        return Left(output, assigned, catcher.next)
    assigned = filled(catcher.assign, visit.about(error.output), visit.randomness)
    return Left(combined(catcher.result_path, visit.input, error.output), assigned, catcher.next)


def _selected(path: str | UnsetType | None, value: Any, visit: Visit) -> Any:
    if path is None:
        return {}
    return value if path is UNSET or path == "$" else read_definite(path, visit.about(value))


def combined(path: str | UnsetType | None, whole: Any, result: Any) -> Any:
    """The input with the result at a reference path; neither is changed. Raises ``EvaluationError``.

    >>> combined("$.a.b", {"c": 1}, 7)
    {'c': 1, 'a': {'b': 7}}
    """
    if path is None:
        return whole
    if path is UNSET or path == "$":
        return result
    try:
        keys = reference_keys(path)
    except InvalidPath as invalid:
        raise EvaluationError(RESULT_PATH_MATCH_FAILURE, str(invalid)) from invalid
    try:
        return _put(whole, keys, result)
    except TypeError as unfit:
        told = f"Unable to apply ReferencePath {path} to input {compact(whole)}"
        raise EvaluationError(RESULT_PATH_MATCH_FAILURE, told) from unfit


def _put(whole: Any, keys: tuple[str | int, ...], result: Any) -> Any:
    if not keys:
        return result
    key, *rest = keys
    if isinstance(key, int):
        if not is_array(whole) or not -len(whole) <= key < len(whole):
            raise TypeError("no such place in an array")
        items = list(whole)
        items[key] = _put(items[key], tuple(rest), result)
        return items
    if not is_object(whole):
        raise TypeError("no object")
    return {**whole, key: _put(whole.get(key, {}), tuple(rest), result)}
