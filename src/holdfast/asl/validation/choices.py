"""Rules for the rules of a Choice: with JSONPath a comparison, with JSONata a condition."""

from __future__ import annotations

from typing import Any, Final

from holdfast.asl.validation.diagnostic import Path
from holdfast.asl.validation.expressions import assignments, condition, template
from holdfast.asl.validation.values import boolean, compared_path, list_of, number, text, timestamp
from holdfast.asl.validation.visit import Check, Shape, Visit, check_object

ORDERS: Final = ("Equals", "LessThan", "GreaterThan", "LessThanEquals", "GreaterThanEquals")

OPERATORS: Final[dict[str, Check]] = {
    **{f"String{order}": text for order in ORDERS},
    "StringMatches": text,
    **{f"Numeric{order}": number for order in ORDERS},
    "BooleanEquals": boolean,
    **{f"Timestamp{order}": timestamp for order in ORDERS},
    **{f"{kind}{order}Path": compared_path for kind in ("String", "Numeric", "Timestamp") for order in ORDERS},
    "BooleanEqualsPath": compared_path,
    **{f"Is{kind}": boolean for kind in ("Null", "Present", "Numeric", "String", "Boolean", "Timestamp")},
}
SELECTORS: Final = ("And", "Or", "Not", "Variable", "Condition")


def rule(visit: Visit, at: Path, value: Any) -> None:
    """A rule of the state itself, which says where to go."""
    if check_object(visit, at, value, RULE):
        selected(visit, at, value)


def inner_rule(visit: Visit, at: Path, value: Any) -> None:
    """A rule within another, which only holds or does not."""
    if check_object(visit, at, value, INNER_RULE):
        selected(visit, at, value)


def selected(visit: Visit, at: Path, value: dict[str, Any]) -> None:
    """Report a rule that is not exactly one thing, and a comparison without exactly one operator."""
    if sum(name in value for name in SELECTORS) != 1:
        visit.report(at, f"The object must have only one of the following fields, [{', '.join(SELECTORS)}]")
    operators = [name for name in value if name in OPERATORS]
    if len(operators) > 1:
        visit.report(at, f"There should only be one of the following fields: [{', '.join(operators)}]")
    elif not operators and "Variable" in value:
        visit.report(at, f"This object should have only one of the following fields: [{', '.join(OPERATORS)}]")


INNER: Final[dict[str, Check]] = {
    "Comment": text,
    "Variable": compared_path,
    **OPERATORS,
    "And": list_of(inner_rule, empty=False),
    "Or": list_of(inner_rule, empty=False),
    "Not": inner_rule,
    "Condition": condition,
}
OF_JSONPATH: Final = frozenset({"Variable", "And", "Or", "Not", *OPERATORS})
OF_JSONATA: Final = frozenset({"Condition", "Output"})

INNER_RULE: Final = Shape(INNER, jsonpath=OF_JSONPATH, jsonata=OF_JSONATA)
RULE: Final = Shape(
    {**INNER, "Next": text, "Assign": assignments, "Output": template},
    required=("Next",),
    jsonpath=OF_JSONPATH,
    jsonata=OF_JSONATA,
)
