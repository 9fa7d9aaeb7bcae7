"""Whether a definition is one that Step Functions takes: rules of the specification, in the words of Step Functions.

``validate`` answers a list of diagnostics for any input at all, and never raises.

Sources: https://states-language.net/spec.html, and CreateStateMachine and ValidateStateMachineDefinition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from holdfast.asl.validation.diagnostic import (
    DUPLICATE_NAME,
    ERROR,
    SCHEMA,
    STYLE,
    WARNING,
    Diagnostic,
    Path,
)
from holdfast.asl.validation.json_text import Lines, Place, places, read
from holdfast.asl.validation.states import machine, state
from holdfast.asl.validation.visit import JSONATA, JSONPATH, Profile, Visit
from holdfast.errors import InvalidInput

__all__ = [
    "ERROR",
    "STYLE",
    "WARNING",
    "Diagnostic",
    "Profile",
    "refuse_invalid",
    "rejection",
    "response",
    "validate",
    "validate_state",
]

MOST_RESULTS: Final = 100


def validate(definition: str | Mapping[str, Any], profile: Profile | None = None) -> list[Diagnostic]:
    """What is wrong with a definition, or may be. Text gets lines and columns; a mapping has none."""
    value = read(definition)
    if isinstance(value, Diagnostic):
        return [value]
    top = JSONPATH if value.get("QueryLanguage", JSONPATH) == JSONPATH else JSONATA
    visit = Visit(profile or Profile(), top, top, [], {}, {})
    machine(visit, value)
    return located(definition, visit.findings) if isinstance(definition, str) else visit.findings


def refuse_invalid(definition: str, name: str, profile: Profile) -> None:
    """Raise ``InvalidInput`` with all errors of the definition of a machine, if it has any."""
    errors = [each for each in validate(definition, profile) if each.severity == ERROR]
    if errors:
        listed = "\n".join(f"  {each.pointer or '/'}: {each.message} ({each.code})" for each in errors)
        raise InvalidInput(f"the definition of state machine {name!r} is not valid:\n{listed}")


def validate_state(definition: str, profile: Profile | None = None) -> list[Diagnostic]:
    """What is wrong with the text of a single state, whose successors are not known."""
    value = read(definition)
    if isinstance(value, Diagnostic):
        return [value]
    visit = Visit(profile or Profile(), JSONPATH, JSONPATH, [], {}, {})
    state(visit, (), value)
    return located(definition, visit.findings)


def located(text: str, findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings with their lines, and those that only the text shows: a name that stands twice in one object."""
    found = list(places(text))
    positions = {place.path: place.position for place in found}
    lines, begin = Lines(text), len(text) - len(text.lstrip())
    twice = [at_line(lines, place.position, repeated(place)) for place in found if place.again]
    return [at_line(lines, position_of(each, positions, begin), each) for each in findings] + twice


def repeated(place: Place) -> Diagnostic:
    """The finding for a field that an object has twice: readers of JSON drop the earlier one."""
    name = place.path[-1]
    if len(place.path) > 1 and place.path[-2] == "States":
        return Diagnostic(ERROR, DUPLICATE_NAME, f"Duplicate State name: {name}", place.path)
    return Diagnostic(ERROR, SCHEMA, f"Field '{name}' is written twice", place.path)


def position_of(finding: Diagnostic, positions: Mapping[Path, int], begin: int) -> int:
    """Where its value stands, or the nearest value around it; the whole text has it at ``begin``."""
    path = finding.path or ()
    while path and path not in positions:
        path = path[:-1]
    return positions.get(path, begin)


def at_line(lines: Lines, position: int, finding: Diagnostic) -> Diagnostic:
    """The finding with the line of a character."""
    line, column = lines.of(position)
    return replace(finding, line=line, column=column)


def response(findings: Iterable[Diagnostic], *, severity: str = ERROR, most: int = MOST_RESULTS) -> dict[str, Any]:
    """What ValidateStateMachineDefinition answers. ``severity``: ``ERROR``, or ``WARNING`` for warnings too."""
    shown = [each for each in findings if each.severity == ERROR or each.severity == severity == WARNING]
    failed = any(each.severity == ERROR for each in shown)
    return {
        "result": "FAIL" if failed else "OK",
        "diagnostics": [told(each) for each in shown[:most]],
        "truncated": len(shown) > most,
    }


def told(finding: Diagnostic) -> dict[str, str]:
    """One diagnostic of that answer."""
    shown = {"severity": finding.severity, "code": finding.code, "message": finding.message}
    return shown if finding.location is None else {**shown, "location": finding.location}


def rejection(findings: Iterable[Diagnostic]) -> str | None:
    """The message of CreateStateMachine's ``InvalidDefinition``, or ``None`` for a definition that it takes."""
    errors = [
        f"{each.code}: {each.message} at {each.location or 'null'}" for each in findings if each.severity == ERROR
    ]
    return f"Invalid State Machine Definition: '{', '.join(errors)}'" if errors else None
