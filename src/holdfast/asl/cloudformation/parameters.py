"""The parameters of a template: the value of one that is not given, and what a template allows.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.asl.errors import EvaluationError
from holdfast.asl.jsontext import compact, is_array
from holdfast.asl.path_tokens import InvalidPath
from holdfast.asl.patterns import limited, pattern
from holdfast.errors import ConfigurationError, InvalidInput

STORED_ELSEWHERE: Final = "AWS::SSM::Parameter::Value<"
"""How the type of a parameter begins whose default is the name of a value in SSM, and no value."""

NUMBERS: Final = frozenset({"Number", "List<Number>"})


def parameter_value(name: str, parameter: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """The value of a parameter. That of a type of lists is a list, whose members stand between commas.

    Raises ``InvalidInput`` without a value, and for a default that CloudFormation refuses; what is given is taken.
    """
    kind = str(parameter.get("Type", ""))
    if name in given:
        return _listed(kind, given[name])
    if kind.startswith(STORED_ELSEWHERE):
        raise InvalidInput(f"parameter {name!r} is read from SSM when a stack is deployed: give it, as {name}=…")
    if "Default" not in parameter:
        raise InvalidInput(f"parameter {name!r} of the template has no default: give it, as {name}=…")
    value = _listed(kind, parameter["Default"])
    if why := next(_refusals(kind, parameter, value), None):
        raise InvalidInput(f"the default of parameter {name!r} of the template {why}: give another value, as {name}=…")
    return value


def _listed(kind: str, value: Any) -> Any:
    is_list = "CommaDelimitedList" in kind or "List<" in kind
    return [each.strip() for each in str(value).split(",")] if is_list and not is_array(value) else value


def _refusals(kind: str, parameter: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Why the template does not allow a value: of a list, each member has to be allowed."""
    allowed = parameter.get("AllowedValues")
    texts = None if allowed is None else [_text(each) for each in allowed]
    for each in value if is_array(value) else [value]:
        text = _text(each)
        if texts is not None and text not in texts:
            yield f"is {text!r}, which AllowedValues have not: {compact(allowed)[:100]}"
        if "AllowedPattern" in parameter and not _fits(str(parameter["AllowedPattern"]), text):
            yield f"is {text!r}, which AllowedPattern {parameter['AllowedPattern']} does not fit"
        size = _number(text) if kind in NUMBERS else len(text)
        if size is None:
            yield f"is {text!r}, which is no number"
            continue
        least, most = ("MinValue", "MaxValue") if kind in NUMBERS else ("MinLength", "MaxLength")
        if least in parameter and size < float(parameter[least]):
            yield f"is {text!r}, which is below {least} {parameter[least]}"
        if most in parameter and size > float(parameter[most]):
            yield f"is {text!r}, which is above {most} {parameter[most]}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _fits(source: str, text: str) -> bool:
    """Whether a pattern fits the whole text. One that the engine cannot read, which is not Java's, allows all."""
    try:
        with limited(source):
            return pattern(source, any_case=False).fits(text)
    except (InvalidPath, ConfigurationError):
        return True
    except EvaluationError as late:
        raise InvalidInput(late.cause) from None
