"""From the JSON of a definition to a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
from holdfast.asl.jsontext import DEFINITION_LEVELS, NotJson, compact, is_object, read, written
from holdfast.errors import InvalidInput

KINDS: Final[Mapping[str, type[State]]] = {
    kind.__name__: kind for kind in (Pass, Task, Choice, Wait, Succeed, Fail, Parallel, Map)
}

DISTRIBUTED: Final = "DISTRIBUTED"


class Machine(Struct, frozen=True):
    """A definition, ready to run. ``text`` is all of it, as compact JSON."""

    processor: Processor
    timeout_seconds: int | None
    text: str


def parse(definition: str | Mapping[str, Any]) -> Machine:
    """The machine that a definition describes. It is presumed to be valid; raises ``InvalidInput`` where it cannot be
    read at all.
    """
    found = _object(definition)
    try:
        processor = _processor(found, found.get("QueryLanguage", JSONPATH))
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise InvalidInput(f"this is no state machine: {type(error).__name__}: {error}") from error
    return Machine(processor, found.get("TimeoutSeconds"), compact(found))


def _object(definition: str | Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = definition if isinstance(definition, str) else written(dict(definition), DEFINITION_LEVELS)
        found = read(text, DEFINITION_LEVELS)
    except NotJson as error:
        raise InvalidInput(f"the definition of a state machine is JSON, and this is not: {error}") from error
    if not is_object(found):
        raise InvalidInput("the definition of a state machine is a JSON object")
    return found


def _processor(written: Mapping[str, Any], language: str) -> Processor:
    config: dict[str, Any] = written.get("ProcessorConfig") or {}
    distributed = config.get("Mode") == DISTRIBUTED
    return Processor(
        start_at=written["StartAt"],
        states={name: _state(name, each, language) for name, each in written["States"].items()},
        distributed=distributed,
        execution_type=config.get("ExecutionType", "STANDARD"),
        text=compact({"QueryLanguage": language, **written}) if distributed else "",
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
