"""What the rules share while they go through a definition, and how an object is compared with its shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.asl.validation.diagnostic import ERROR, SCHEMA, Diagnostic, Path
from holdfast.asl.validation.kinds import is_object

JSONPATH: Final = "JSONPath"
JSONATA: Final = "JSONata"


class Profile(Struct, frozen=True):
    """For whom a definition is validated.

    ``aws``: it is for Step Functions itself, so a Task's resource has to be an ARN that is known there, and credentials
    name a role; Holdfast binds resources by any name. ``express``: the machine is an Express one, which may do less.
    ``substitutions``: ``${…}``, ``Ref`` and ``Fn::…`` may stand in for a value, as in a template of CloudFormation.
    """

    aws: bool = True
    express: bool = False
    substitutions: bool = False


class Visit(Struct, frozen=True):
    """A walk through one definition: what was found, and what is known where the walk stands.

    ``names`` and ``labels`` are those of all states seen, with their places. ``language`` is that of the state at hand.
    """

    profile: Profile
    top_language: str
    language: str
    findings: list[Diagnostic]
    names: dict[str, Path]
    labels: dict[str, Path]
    in_catcher: bool = False

    @property
    def jsonata(self) -> bool:
        return self.language == JSONATA

    def speaking(self, language: str) -> Visit:
        """The same walk in a state of that query language."""
        return replace(self, language=language)

    def catching(self) -> Visit:
        """The same walk in a catcher, where ``$states.errorOutput`` is known."""
        return replace(self, in_catcher=True)

    def report(self, at: Path | None, message: str, code: str = SCHEMA, severity: str = ERROR) -> None:
        """Add a finding."""
        self.findings.append(Diagnostic(severity, code, message, at))

    def stands_in(self, value: object) -> bool:
        """Whether a value is substituted before Step Functions sees it."""
        if not self.profile.substitutions:
            return False
        if isinstance(value, str):
            return "${" in value
        return is_object(value) and len(value) == 1 and any(name == "Ref" or name[:4] == "Fn::" for name in value)


Check = Callable[[Visit, Path, Any], None]
"""A rule for one value: it reports what is wrong with it."""


class Shape(Struct, frozen=True):
    """Which fields an object has. ``exclusive``: at most one of each group; ``exactly``: one of each group.

    ``jsonpath`` and ``jsonata`` are the fields that only states with that query language have.
    """

    fields: Mapping[str, Check]
    required: tuple[str, ...] = ()
    exclusive: tuple[tuple[str, ...], ...] = ()
    exactly: tuple[tuple[str, ...], ...] = ()
    jsonpath: frozenset[str] = frozenset()
    jsonata: frozenset[str] = frozenset()


def check_object(visit: Visit, at: Path, value: Any, shape: Shape) -> bool:
    """Compare an object with its shape, and each field with its rule. Whether it is an object at all."""
    if not is_object(value):
        visit.report(at, "Expected value of type [OBJECT]")
        return False
    if missing := [name for name in shape.required if name not in value]:
        visit.report(at, f"These fields are required: [{', '.join(missing)}]")
    for group in (*shape.exclusive, *shape.exactly):
        if sum(name in value for name in group) > 1:
            visit.report(at, f"There should only be one of the following fields: [{', '.join(group)}]")
    for group in shape.exactly:
        if not any(name in value for name in group):
            visit.report(at, f"This object should have only one of the following fields: [{', '.join(group)}]")
    for name, inner in value.items():
        check_field(visit, at, name, inner, shape)
    return True


def check_field(visit: Visit, at: Path, name: str, value: Any, shape: Shape) -> None:
    """Compare one field with its rule, if an object of the shape has it in this query language."""
    other = JSONPATH if visit.jsonata else JSONATA
    foreign = shape.jsonpath if visit.jsonata else shape.jsonata
    if name in foreign:
        visit.report(
            at,
            f"The QueryLanguage is set to '{visit.language}', but field '{name}' is only supported for the '{other}' "
            "QueryLanguage",
        )
    elif name not in shape.fields:
        visit.report(at, f"Field '{name}' is not supported")
    elif not visit.stands_in(value):
        shape.fields[name](visit, (*at, name), value)
