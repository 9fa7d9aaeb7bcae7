"""Rules for what is evaluated: payload templates of JSONPath, calls of intrinsic functions, and JSONata."""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.asl.intrinsics import compiled_call, is_call
from holdfast.asl.jsonata import UNSUPPORTED, InvalidExpression, compile_expression
from holdfast.asl.jsonata_reading import CLOSING, OPENING, expression_in
from holdfast.asl.validation.arguments import misused
from holdfast.asl.validation.diagnostic import (
    INVALID_VARIABLE,
    NO_DOLLAR,
    NOT_CHECKED,
    RESERVED_VARIABLE,
    STATIC_RESULT,
    STYLE,
    TOO_DEEP,
    WARNING,
    Path,
)
from holdfast.asl.validation.kinds import is_list, is_object
from holdfast.asl.validation.values import is_path
from holdfast.asl.validation.visit import Check, Visit
from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS
from holdfast.errors import ConfigurationError

DYNAMIC: Final = ".$"
VARIABLE_CHARACTERS: Final = 80

VARIABLE = re.compile(r"[^\W\d]\w*")
LOOKS_LIKE_A_PATH = re.compile(r"\$\$?(?:[.\[].*)?|States\.\w+\(.*\)", re.DOTALL)
WELL_SPACED = re.compile(r"\{% .* %\}")


def template(visit: Visit, at: Path, value: Any) -> None:
    """A payload template: with JSONata any value with expressions in it, else one whose keys may end in ``.$``."""
    if nests_too_deep(visit, at, value):
        return
    if visit.jsonata:
        jsonata_in(visit, at, value)
    else:
        payload(visit, at, value)


def nests_too_deep(visit: Visit, at: Path, value: Any) -> bool:
    """Report a literal whose value no state could hand on, at the first list or object that is too deep."""
    open_values = [(at, value, 0)]
    while open_values:
        place, each, levels = open_values.pop()
        if not is_object(each) and not is_list(each):
            continue
        if levels == NESTING_LIMIT_LEVELS:
            visit.report(place, f"The value nests more than {NESTING_LIMIT_LEVELS} levels deep", TOO_DEEP)
            return True
        inner = each.items() if is_object(each) else enumerate(each)
        open_values += (((*place, name), one, levels + 1) for name, one in reversed(list(inner)))
    return False


def payload(visit: Visit, at: Path, value: Any) -> None:
    """A payload template of JSONPath."""
    if is_object(value):
        for name, inner in value.items():
            payload_field(visit, at, name, inner, value)
    elif is_list(value):
        for place, inner in enumerate(value):
            payload(visit, (*at, place), inner)


def payload_field(visit: Visit, at: Path, name: str, value: Any, siblings: dict[str, Any]) -> None:
    """One field of it: a path or a call if its name says so."""
    if not name.endswith(DYNAMIC):
        if isinstance(value, str) and LOOKS_LIKE_A_PATH.fullmatch(value):
            told = (
                f"The value of '{name}' looks like a path or an intrinsic function, but the name does not end in '.$'"
            )
            visit.report((*at, name), told, NO_DOLLAR, WARNING)
        payload(visit, (*at, name), value)
        return
    if name.removesuffix(DYNAMIC) in siblings:
        visit.report(at, f"There should only be one of the following fields: [{name.removesuffix(DYNAMIC)}, {name}]")
    if not visit.stands_in(value) and not is_dynamic(value):
        visit.report(
            at, f"The value for the field '{name}' must be a valid JSONPath or a valid intrinsic function call"
        )


def is_dynamic(value: Any) -> bool:
    """Whether a value is a path, or a call of an intrinsic function with arguments that it takes."""
    if not isinstance(value, str):
        return False
    return is_intrinsic(value) if is_call(value) else is_path(value)


def is_intrinsic(value: str) -> bool:
    """Whether a text is a call of an intrinsic function."""
    try:
        return not misused(compiled_call(value))
    except (ValueError, RecursionError):
        return False


def path_or_call(visit: Visit, at: Path, value: Any) -> None:
    """A path, or a call: what ``ErrorPath`` and ``CausePath`` take."""
    if not isinstance(value, str):
        visit.report(at, "Expected value of type [STRING]")
    elif not is_dynamic(value):
        visit.report(at, "Value must be a valid JSONPath.")


def static_result(visit: Visit, at: Path, value: Any) -> None:
    """The result of a Pass, which is never evaluated."""
    if not nests_too_deep(visit, at, value):
        _static(visit, at, value)


def constant(visit: Visit, at: Path, value: Any) -> None:
    """Any value, such as the items of a Map."""
    nests_too_deep(visit, at, value)


def _static(visit: Visit, at: Path, value: Any) -> None:
    if is_object(value):
        if any(name.endswith(DYNAMIC) for name in value):
            visit.report(at, "The Result of a Pass is not evaluated; use Parameters", STATIC_RESULT, WARNING)
        for name, inner in value.items():
            _static(visit, (*at, name), inner)
    elif is_list(value):
        for place, inner in enumerate(value):
            _static(visit, (*at, place), inner)


def assignments(visit: Visit, at: Path, value: Any) -> None:
    """``Assign``: an object with names of variables, each with a template."""
    if not is_object(value):
        visit.report(at, "Expected value of type [OBJECT]")
        return
    for written in value:
        name = written if visit.jsonata else written.removesuffix(DYNAMIC)
        if name == "states":
            visit.report(at, "Cannot assign to reserved variable '$states'.", RESERVED_VARIABLE)
        elif not VARIABLE.fullmatch(name):
            told = f"Invalid variable name '{name}': the variable name contains invalid characters."
            visit.report(at, told, INVALID_VARIABLE)
        elif len(name) > VARIABLE_CHARACTERS:
            told = f"Invalid variable name '{name}': it is longer than {VARIABLE_CHARACTERS} characters."
            visit.report(at, told, INVALID_VARIABLE)
    template(visit, at, value)


def jsonata_in(visit: Visit, at: Path, value: Any) -> None:
    """Every expression within a value."""
    if isinstance(value, str):
        expression(visit, at, value)
    elif is_object(value):
        for name, inner in value.items():
            jsonata_in(visit, (*at, name), inner)
    elif is_list(value):
        for place, inner in enumerate(value):
            jsonata_in(visit, (*at, place), inner)


def expression(visit: Visit, at: Path, value: str) -> None:
    """A string: meant literally, or an expression that Step Functions can compile."""
    source = expression_in(value)
    if source is None:
        if value.startswith(OPENING) or value.endswith(CLOSING):
            visit.report(at, f"JSONata string must start with {OPENING} and end with {CLOSING}")
        return
    if not WELL_SPACED.fullmatch(value):
        visit.report(
            at, "An expression is written in one line, with blanks around it: {% … %}", "JSONATA_BLANKS", STYLE
        )
    try:
        reads = compile_expression(source).reads_of_states()
    except InvalidExpression as refused:
        visit.report(at, str(refused), refused.code)
    except ConfigurationError as missing:
        visit.report(at, str(missing), NOT_CHECKED, WARNING)
    else:
        if "errorOutput" in reads and not visit.in_catcher:
            visit.report(at, "Reference to '$states.errorOutput' is not supported.", UNSUPPORTED)


def or_expression(check: Check) -> Check:
    """A constant that follows a rule, or with JSONata an expression that gives it."""

    def checked(visit: Visit, at: Path, value: Any) -> None:
        if visit.jsonata and isinstance(value, str) and (value.startswith(OPENING) or value.endswith(CLOSING)):
            expression(visit, at, value)
        else:
            check(visit, at, value)

    return checked


def condition(visit: Visit, at: Path, value: Any) -> None:
    """The condition of a rule: ``true``, ``false`` or an expression."""
    if isinstance(value, bool):
        return
    if not isinstance(value, str) or expression_in(value) is None:
        visit.report(at, f"JSONata string must start with {OPENING} and end with {CLOSING}")
    else:
        expression(visit, at, value)
