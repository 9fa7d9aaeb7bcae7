"""Cases about definitions: what linters say of one, and how Step Functions refuses or validates it."""

from __future__ import annotations

import json
from typing import Any

from tests.asl.conformance.cases import Case, Differences
from tests.asl.conformance.matching import same, shown

from holdfast.asl.validation import ERROR, STYLE, Profile, rejection, response, validate


def text_of(definition: Any, twice: Any = None) -> str:
    """The definition as text, with the fields written twice that were so in the source it was read from."""
    if isinstance(definition, str):
        return definition
    return written(definition, frozenset(twice or ()))


def written(value: Any, twice: frozenset[str]) -> str:
    if isinstance(value, dict):
        fields = [f"{json.dumps(name)}: {written(inner, twice)}" for name, inner in value.items()]
        again = [field for name, field in zip(value, fields, strict=True) if name in twice]
        return "{" + ", ".join(again + fields) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(inner, twice) for inner in value) + "]"
    return json.dumps(value)


def check_lint(case: Case) -> Differences:
    """Both linters judge a machine that need not run on AWS, and may be a template."""
    source = text_of(case["definition"], case.get("duplicate_keys_in_source"))
    findings = validate(source, Profile(aws=False, substitutions=True))
    found = [each for each in findings if each.severity in {ERROR, STYLE}]
    if bool(found) != case["expected"]["valid"]:
        return []
    told = "; ".join(f"{each.message} at {each.location}" for each in found)
    return [f"valid: expected {case['expected']['valid']}, found: {told or 'nothing'}"]


def check_rejection(case: Case) -> Differences:
    """What is not about the definition cannot be seen in the case, and counts as a failure."""
    definition = case["definition"]
    if definition is None:
        return ["the request is not in the case"]
    message = rejection(validate(text_of(definition), Profile(express=case.get("type") == "EXPRESS")))
    if not case["aws_recorded"]:  # the words are another emulator's
        return [] if message else ["the definition was taken"]
    expected = message_of(case["expected_response"])
    return [] if same(expected, message, wild=True) else [f"expected {expected}, got {message}"]


def check_validation(case: Case) -> Differences:
    definition = text_of(case["definition"])
    answer = response(validate(definition, Profile(express=case.get("type") == "EXPRESS")))
    expected = case["expected_response"]
    return [] if same(expected, answer, wild=True) else [f"expected {shown(expected)}, got {shown(answer)}"]


def message_of(answer: Any) -> str:
    """The message of an error, as a client has recorded it."""
    if isinstance(answer, str):
        return answer
    if "message" in answer:
        return str(answer["message"])
    text = str(answer["exception_value"])
    return text.partition("operation: ")[2] or text
