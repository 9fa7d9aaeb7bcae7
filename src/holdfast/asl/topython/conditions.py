"""The rules of a Choice in JSONPath as conditions of Python.

A value of another type than the operator's never matches, as in the machine.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.asl.choice import OPERATORS
from holdfast.asl.paths import InvalidPath, compiled
from holdfast.asl.topython.code import Chain, Code, Operation, Prefixed, call, quoted
from holdfast.asl.topython.expressions import Scope, literal, path_code, path_keys, rooted
from holdfast.asl.topython.parts import Pointer, Unconverted

_SYMBOLS: Final = {
    "Equals": "==",
    "LessThan": "<",
    "GreaterThan": ">",
    "LessThanEquals": "<=",
    "GreaterThanEquals": ">=",
}


def condition(test: dict[str, Any], scope: Scope, pointer: Pointer) -> Code:
    """A rule. What has no plain form is kept in a call that raises."""
    for operator in ("And", "Or"):
        if operator in test:
            within = enumerate(test[operator])
            parts = tuple(condition(each, scope, (*pointer, operator, number)) for number, each in within)
            return parts[0] if len(parts) == 1 else Chain(operator.lower(), parts)
    if "Not" in test:
        return negated(condition(test["Not"], scope, (*pointer, "Not")))
    try:
        return _comparison(test, scope)
    except (Unconverted, InvalidPath) as why:
        return scope.parts.not_converted(pointer, test, str(why))


def negated(code: Code) -> Code:
    """The opposite."""
    match code:
        case Prefixed("not ", inner):
            return inner
        case _:
            return Prefixed("not ", code)


def _comparison(test: dict[str, Any], scope: Scope) -> Code:
    variable = compiled(test["Variable"])
    operator, wanted = next((name, value) for name, value in test.items() if name in OPERATORS or name == "IsPresent")
    if operator == "IsPresent":
        root, keys = rooted(variable.root, path_keys(variable), scope)
        present = call(scope.parts.helper("has"), root, *map(literal, keys))
        return present if wanted else negated(present)
    return _compared(path_code(variable, scope), operator, wanted, scope)


def _compared(value: str, operator: str, wanted: Any, scope: Scope) -> Code:
    if operator.startswith("Is"):
        return _of_type(value, operator, wanted, scope)
    if operator == "StringMatches":
        return _matches(value, wanted, scope)
    other = path_code(compiled(wanted), scope) if operator.endswith("Path") else ""
    kind = next(kind for kind in ("String", "Numeric", "Boolean", "Timestamp") if operator.startswith(kind))
    symbol = _SYMBOLS.get(operator.removeprefix(kind).removesuffix("Path"), "")
    if kind == "Timestamp" or not symbol:
        raise Unconverted("compare times in Python: datetime.fromisoformat")
    if kind == "Boolean" and not other:
        return Operation("is", (value, str(wanted)))
    compared = Operation(symbol, (value, other or _written(wanted)))
    if symbol == "==" and not other and (kind == "String" or wanted not in (0, 1)):
        return compared
    check = {"String": "is_text", "Numeric": "is_number", "Boolean": "is_flag"}[kind]
    return Chain("and", (call(scope.parts.helper(check), value, *([other] if other else [])), compared))


def _matches(value: str, pattern: str, scope: Scope) -> Code:
    """A pattern with stars at its ends alone. Raises ``Unconverted``."""
    text = pattern.strip("*")
    if "*" in text or "\\" in text:
        raise Unconverted("a pattern with stars or escapes within: use re.fullmatch")
    is_text = call(scope.parts.helper("is_text"), value)
    match pattern.startswith("*"), pattern.endswith("*"):
        case False, False:
            return Operation("==", (value, quoted(text)))
        case True, True:
            return Chain("and", (is_text, Operation("in", (quoted(text), value)))) if text else is_text
        case begins, _:
            return Chain("and", (is_text, call(f"{value}.{'endswith' if begins else 'startswith'}", quoted(text))))


def _written(wanted: Any) -> str:
    return quoted(wanted) if isinstance(wanted, str) else repr(wanted)


def _of_type(value: str, operator: str, wanted: Any, scope: Scope) -> Code:
    match operator:
        case "IsNull":
            return Operation("is" if wanted else "is not", (value, "None"))
        case "IsNumeric" | "IsString" | "IsBoolean":
            check = {"IsNumeric": "is_number", "IsString": "is_text", "IsBoolean": "is_flag"}[operator]
            found = call(scope.parts.helper(check), value)
            return found if wanted else negated(found)
        case _:
            raise Unconverted("try datetime.fromisoformat")
