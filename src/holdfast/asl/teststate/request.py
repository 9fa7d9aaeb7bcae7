"""The request of TestState, with the fields of AWS, and the state in it.

Source: https://docs.aws.amazon.com/step-functions/latest/apireference/API_TestState.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.asl import jsontext
from holdfast.asl.definition import State, state_of
from holdfast.asl.teststate.refusal import DEFINITION, INPUT, Refused
from holdfast.asl.validation import Profile, rejection, validate, validate_state
from holdfast.asl.validation.diagnostic import Diagnostic
from holdfast.asl.validation.json_text import read

Level = Literal["INFO", "DEBUG", "TRACE"]
Mode = Literal["STRICT", "PRESENT", "NONE"]


class ErrorOutput(Struct, frozen=True, rename="camel"):
    """The error that a mocked state fails with."""

    error: str | None = None
    cause: str | None = None


class Mock(Struct, frozen=True, rename="camel"):
    """What stands for the state's work: ``result`` is JSON text."""

    result: str | None = None
    error_output: ErrorOutput | None = None
    field_validation_mode: Mode = "STRICT"


class Configuration(Struct, frozen=True, rename="camel"):
    """What is presumed of the state's earlier attempts and of a Map's iterations."""

    retrier_retry_count: int = 0
    error_caused_by_state: str | None = None
    map_iteration_failure_count: int | None = None
    map_item_reader_data: str | None = None


class Request(Struct, frozen=True, rename="camel"):
    """A request; texts named ``definition``, ``input``, ``variables`` and ``context`` hold JSON."""

    definition: str
    role_arn: str | None = None
    input: str = "{}"
    inspection_level: Level = "INFO"
    reveal_secrets: bool = False
    variables: str | None = None
    state_name: str | None = None
    mock: Mock | None = None
    context: str | None = None
    state_configuration: Configuration = Configuration()


def request_of(fields: Mapping[str, Any]) -> Request:
    """The request in a JSON object. Raises ``Refused``."""
    try:
        return msgspec.convert(fields, Request)
    except msgspec.ValidationError as error:
        raise Refused(str(error)) from error


def state_in(request: Request, profile: Profile) -> State:
    """The state that is tested: the definition itself, or the one that it names. Raises ``Refused``."""
    definition = read(request.definition)
    if isinstance(definition, Diagnostic):
        raise Refused(rejection([definition]) or "", DEFINITION)
    if request.state_name is None:
        refuse(rejection(validate_state(request.definition, profile)))
        return state_of("StateName", definition)
    refuse(rejection(validate(request.definition, profile)))
    language = definition.get("QueryLanguage", "JSONPath")
    written = named(definition, request.state_name)
    if written is None:
        raise Refused("State not found in definition")
    return state_of(request.state_name, written, language)


def refuse(message: str | None) -> None:
    """Refuse a definition for what is wrong with it, if anything is."""
    if message is not None:
        raise Refused(message, DEFINITION)


def named(machine: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The state of a name, wherever it is in a valid definition."""
    for each, state in machine["States"].items():
        if each == name:
            return dict(state)
        inner = (state.get("ItemProcessor"), state.get("Iterator"), *state.get("Branches", ()))
        for part in inner:
            if part is not None and (found := named(part, name)) is not None:
                return found
    return None


def json_of(text: str, what: str, aws_code: str = INPUT) -> Any:
    """The value of a JSON text. Raises ``Refused``, which names the field."""
    try:
        return jsontext.read(text)
    except jsontext.NotJson as error:
        raise Refused(f"Invalid {what}: {error}", aws_code) from error
