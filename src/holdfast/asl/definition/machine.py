"""From the JSON of a definition to a machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.asl.definition.rules import choice_rule
from holdfast.asl.definition.states import (
    JSONPATH,
    Choice,
    Fail,
    Map,
    Parallel,
    Pass,
    Processor,
    State,
    Succeed,
    Task,
    Wait,
)
from holdfast.errors import InvalidInput

KINDS: Final[Mapping[str, type[State]]] = {
    kind.__name__: kind for kind in (Pass, Task, Choice, Wait, Succeed, Fail, Parallel, Map)
}

DISTRIBUTED: Final = "DISTRIBUTED"


class Machine(Struct, frozen=True):
    """A definition, ready to run. ``digest`` names its exact text."""

    processor: Processor
    language: str
    timeout_seconds: int | None
    digest: str
    text: str


def definition_json(definition: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a definition that is given as a dict, as JSON text, or as the path of a file that holds it.

    Raises ``InvalidInput`` if it is no JSON object, and what reading the file raises.
    """
    if isinstance(definition, Mapping):
        return dict(definition)
    text = str(definition)
    if isinstance(definition, Path) or not text.lstrip().startswith("{"):
        text = Path(text).read_text(encoding="utf-8")
    try:
        parsed: Any = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"the definition of a state machine is JSON, and this is not: {error}") from error
    if not isinstance(parsed, dict):
        raise InvalidInput("the definition of a state machine is a JSON object")
    return cast("dict[str, Any]", parsed)


def digest_of(text: str) -> str:
    """What names a definition: a digest of its text."""
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def parse(definition: Mapping[str, Any]) -> Machine:
    """The machine that a definition describes. It is presumed to be valid; raises ``InvalidInput`` where it cannot be
    read at all.
    """
    text = _text(definition)
    language = definition.get("QueryLanguage", JSONPATH)
    try:
        processor = _processor(definition, language)
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise InvalidInput(f"this is no state machine: {type(error).__name__}: {error}") from error
    return Machine(processor, language, definition.get("TimeoutSeconds"), digest_of(text), text)


def _text(definition: Mapping[str, Any]) -> str:
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"))


def _processor(written: Mapping[str, Any], language: str) -> Processor:
    config: dict[str, Any] = written.get("ProcessorConfig") or {}
    distributed = config.get("Mode") == DISTRIBUTED
    return Processor(
        start_at=written["StartAt"],
        states={name: _state(name, each, language) for name, each in written["States"].items()},
        distributed=distributed,
        execution_type=config.get("ExecutionType", "STANDARD"),
        text=_text({"QueryLanguage": language, **written}) if distributed else "",
    )


def state_of(name: str, written: Mapping[str, Any], language: str = JSONPATH) -> State:
    """One state, by itself. Raises as ``parse``."""
    try:
        return _state(name, written, language)
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise InvalidInput(f"{name!r} is no state: {type(error).__name__}: {error}") from error


def _state(name: str, written: Mapping[str, Any], language: str) -> State:
    """A state. ``language`` is that of the machine: the default of every state, of one within another too."""
    kind: Any = KINDS[written["Type"]]
    state: State = msgspec.convert(dict(written), kind)
    state = replace(state, name=name, language=written.get("QueryLanguage", language))
    match state:
        case Choice():
            return replace(state, rules=[choice_rule(rule) for rule in written["Choices"]])
        case Parallel():
            return replace(state, branches=[_processor(branch, language) for branch in written["Branches"]])
        case Map():
            inner = written.get("ItemProcessor") or written["Iterator"]
            selector = state.parameters if state.item_selector is msgspec.UNSET else state.item_selector
            return replace(
                state, processor=_processor(inner, language), item_selector=selector, parameters=msgspec.UNSET
            )
        case _:
            return state
