"""Payload templates: objects whose fields that end in ``.$`` are computed (JSONPath), or whose texts ``{% … %}`` are
(JSONata).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.asl import intrinsics
from holdfast.asl.environment import Environment
from holdfast.asl.errors import RUNTIME, EvaluationError
from holdfast.asl.jsonata import compile_expression
from holdfast.asl.jsonata_reading import expression_in
from holdfast.asl.jsontext import compact, is_array, is_number, is_object
from holdfast.asl.paths import InvalidPath, PathNotFound, compiled
from holdfast.asl.randomness import Randomness
from holdfast.asl.visit import Visit

COMPUTED = ".$"


def filled(template: Any, environment: Environment, randomness: Randomness) -> Any:
    """The template with its computed fields. Raises ``EvaluationError``."""
    if is_object(template):
        return dict(_field(name, value, environment, randomness) for name, value in template.items())
    if is_array(template):
        return [filled(each, environment, randomness) for each in template]
    return template


def _field(name: str, value: Any, environment: Environment, randomness: Randomness) -> tuple[str, Any]:
    if name.endswith(COMPUTED) and isinstance(value, str):
        return name.removesuffix(COMPUTED), computed(name, value, environment, randomness)
    return name, filled(value, environment, randomness)


def computed(field: str, text: str, environment: Environment, randomness: Randomness) -> Any:
    """The value of a path or of a call of an intrinsic function. ``field`` names it in causes."""
    try:
        if intrinsics.is_call(text):
            return intrinsics.call(text, environment, randomness)
        return compiled(text).read(environment)
    except PathNotFound as missing:
        told = compact(_about(text, environment))
        raise EvaluationError(
            RUNTIME, f"The JSONPath '{text}' specified for the field '{field}' could not be found in the input '{told}'"
        ) from missing
    except InvalidPath as invalid:
        raise EvaluationError(RUNTIME, f"Invalid path '{text}' : {invalid}") from invalid


def _about(text: str, environment: Environment) -> Any:
    return environment.context if text.startswith("$$") else environment.input


def evaluated(template: Any, visit: Visit, field: str) -> Any:
    """A value of a JSONata state with its expressions evaluated. ``field`` is its place in the state, for causes.

    Raises ``EvaluationError``.
    """
    if isinstance(template, str):
        source = expression_in(template)
        return template if source is None else _value_of(source, visit, field)
    if is_object(template):
        return {name: evaluated(value, visit, f"{field}/{name}") for name, value in template.items()}
    if is_array(template):
        return [evaluated(value, visit, f"{field}[{place}]") for place, value in enumerate(template)]
    return template


def of_type(expected: str, template: Any, visit: Visit, field: str) -> Any:
    """The same for a field that takes one JSON type: ``array``, ``boolean``, ``number``, ``string`` or ``object``."""
    value = evaluated(template, visit, field)
    source = expression_in(template) if isinstance(template, str) else None
    if source is not None and not _TYPES[expected](value):
        raise compile_expression(source).unexpected_type(field, expected, value)
    return value


def _value_of(source: str, visit: Visit, field: str) -> Any:
    expression = compile_expression(source)
    seed = visit.randomness.generator().getrandbits(64)
    return expression.evaluate(visit.states, visit.variables, field=field, now_ms=visit.now_ms, seed=seed)


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "array": is_array,
    "boolean": lambda value: isinstance(value, bool),
    "number": is_number,
    "object": is_object,
    "string": lambda value: isinstance(value, str),
}
