"""Where a definition comes from: a dict, a text, a file, or a template of CloudFormation; and its substitutions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.asl.cloudformation.machines import Deployed, is_template, machines_in
from holdfast.asl.cloudformation.values import LITERAL, RESOLVED, STANDS_LATER, STANDS_NEVER
from holdfast.asl.cloudformation.yaml_text import read_yaml
from holdfast.asl.jsontext import (
    DEFINITION_CHARACTERS,
    DEFINITION_LEVELS,
    NotJson,
    compact,
    is_array,
    is_object,
    read,
    reference_token,
    written,
)
from holdfast.errors import InvalidInput

RESOURCES: Final = re.compile(r"^Resources\s*:|\"Resources\"\s*:\s*\{", re.MULTILINE)

Values = Mapping[str, str | float | bool]
"""What names stand for."""

YAML: Final = frozenset({".yaml", ".yml"})
NAME: Final = re.compile(rf"\${LITERAL}?\{{([^${{}}]+)\}}")
LEFT_OVER: Final = re.compile(r"\$\{(?P<name>[\w.:-]+)\}")


class Source(Struct, frozen=True):
    """A definition as text, with the type of its machine and its logical id where it is one of a template."""

    text: str
    type: str | None = None
    name: str | None = None


def definition_of(
    definition: str | Path | Mapping[str, Any], *, resource: str | None = None, substitutions: Values | None = None
) -> str:
    """The JSON text of a definition, which is a dict, JSON text, or the path of a file: JSON, or YAML by its name.

    Each ``${NAME}`` in it becomes what ``substitutions`` has for it. Of a template of CloudFormation or SAM it is the
    definition of the state machine ``resource``, which has to be named if there are several; ``substitutions`` then
    also say what ``Ref`` (``Name``) and ``Fn::GetAtt`` (``Name.Arn``) stand for. By default that is the logical id, and
    an ARN of the account ``000000000000``.

    Raises ``InvalidInput`` for a template without such a machine, or a value that has to be given, and what reading a
    file raises.

        >>> definition_of({"StartAt": "${First}", "States": {}}, substitutions={"First": "Pay"})
        '{"StartAt":"Pay","States":{}}'
    """
    return source_of(definition, resource, substitutions).text


def source_of(
    definition: str | Path | Mapping[str, Any], resource: str | None = None, substitutions: Values | None = None
) -> Source:
    """See ``definition_of``."""
    values = substitutions or {}
    for name, value in cast("Mapping[str, Any]", values).items():
        if not isinstance(value, str | int | float):
            raise InvalidInput(
                f"substitution {name!r} has to be a text, a number or a boolean; give what it stands for"
            )
    found = _found(definition)
    if found.template is None:
        if resource is not None:
            raise InvalidInput(f"{resource!r} is looked for in a template, and this is none: it has no Resources")
        return Source(_as_json(substituted(found.text, values), found.file))
    return _deployed(found.template, resource, values, found)


def machines_of(definition: str | Path | Mapping[str, Any]) -> list[str] | None:
    """The names of the state machines in a template; ``None`` if it is a definition."""
    template = _found(definition).template
    return None if template is None else machines_in(template)


def substituted(text: str, values: Values) -> str:
    """The text with each ``${NAME}`` replaced that there is a value for, as within JSON text.

    Raises ``InvalidInput`` where it becomes longer than a definition may be.

    >>> substituted('{"a": "${A}", "b": ${B}, "c": "${C}"}', {"A": "say a", "B": 5})
    '{"a": "say a", "b": 5, "c": "${C}"}'
    """
    written = {
        name: json.dumps(given, ensure_ascii=False)[1:-1] if isinstance(given, str) else compact(given)
        for name, given in values.items()
    }
    added = 0

    def value(found: re.Match[str]) -> str:
        nonlocal added
        put = written.get(found[1], found[0])
        added += len(put) - len(found[0])
        if added > DEFINITION_CHARACTERS:
            told = f"with its names replaced it has more than the {DEFINITION_CHARACTERS:,} characters of a definition"
            raise InvalidInput(f"{told}: give shorter values")
        return put

    return NAME.sub(value, text) if values else text


class _Found(Struct, frozen=True):
    """What was given: the text of a definition, or a template. ``file`` is the one that it was read from."""

    text: str
    template: Mapping[str, Any] | None = None
    file: Path | None = None


def _found(definition: str | Path | Mapping[str, Any]) -> _Found:
    if isinstance(definition, Mapping):
        text = written(dict(definition), DEFINITION_LEVELS)
        return _Found(text, read(text, DEFINITION_LEVELS) if is_template(definition) else None)
    text = str(definition)
    if not isinstance(definition, Path) and text.lstrip().startswith("{"):
        return _Found(text, _template_in(text, None))
    file = Path(text)
    text = _text_in(file)
    return _Found(text, _template_in(text, file), file)


def _text_in(file: Path) -> str:
    with file.open(encoding="utf-8") as opened:
        return opened.read(DEFINITION_CHARACTERS + 1)  # of a longer one it is enough to know that it is


def _template_in(text: str, file: Path | None) -> Mapping[str, Any] | None:
    """The template that a text is, if it is one."""
    if "Resources" not in text:
        return None
    if len(text) > DEFINITION_CHARACTERS and RESOURCES.search(text):
        told = f"a template may have {DEFINITION_CHARACTERS:,} characters, in CloudFormation too, and this one has more"
        raise InvalidInput(f"{file or 'the template'}: {told}. Pass the file of the definition itself")
    if len(text) > DEFINITION_CHARACTERS:
        return None
    try:
        value = read_yaml(text, str(file)) if _is_yaml(file) else read(text, DEFINITION_LEVELS)
    except NotJson:  # what is wrong with it is told where a definition is validated
        return None
    return value if is_template(value) else None


def _is_yaml(file: Path | None) -> bool:
    return file is not None and file.suffix in YAML


def _as_json(text: str, file: Path | None) -> str:
    if not _is_yaml(file):
        return text
    value = read_yaml(text, str(file))
    return written(value, DEFINITION_LEVELS)


def _deployed(template: Mapping[str, Any], resource: str | None, values: Values, found: _Found) -> Source:
    try:
        machine = Deployed(template, resource, values)
        inline, own = machine.inline(), machine.substitutions()
        if inline is not None:
            text = inline if isinstance(inline, str) else written(inline, DEFINITION_LEVELS)
            return Source(_resolved(text, own, f"the definition of {machine.name!r}"), machine.type, machine.name)
        file = machine.file(Path() if found.file is None else found.file.parent)
        text = _text_in(file)
        _refuse_resolved(text, str(file))
        return Source(_as_json(_complete(text, own, str(file)), file), machine.type, machine.name)
    except InvalidInput as error:
        raise InvalidInput(f"{found.file or 'the template'}: {error}") from None


def _complete(text: str, values: Values, what: str) -> str:
    """The text with its names replaced. Raises ``InvalidInput`` for one that there is no value for."""
    for found in LEFT_OVER.finditer(text):
        name, line = found["name"], _line_of(text, found.start())
        if name not in values:
            told = f"{what}{_pointer_to(found[0], text)}, line {line}: nothing says what {found[0]} stands for"
            raise InvalidInput(f"{told}. Give it, as {name}=…; or as {name}='{found[0]}' if it is to stay as it is")
    return substituted(text, values).replace(f"${LITERAL}{{", "${")


def _refuse_resolved(text: str, what: str) -> None:
    if RESOLVED in text:
        at = f"{_pointer_to(RESOLVED, text)}, line {_line_of(text, text.index(RESOLVED))}"
        raise InvalidInput(f"{what}{at}: {STANDS_NEVER}")


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _resolved(text: str, values: Values, what: str) -> str:
    """See ``_complete``. The text is a property in a template, where CloudFormation reads what it names elsewhere."""
    complete = _complete(text, values, what)
    if RESOLVED in complete:  # made of parts of the text and of what was put into it
        raise InvalidInput(STANDS_LATER)
    return complete


def _pointer_to(part: str, text: str) -> str:
    """The JSON pointer of the first text with this part in it, behind a blank; nothing if the text is not JSON."""
    try:
        value = read(text, DEFINITION_LEVELS)
    except NotJson:
        return ""
    return next((f" at {pointer}" for pointer, each in _texts_in(value, "") if part in each), "")


def _texts_in(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif is_object(value):
        for name, inner in value.items():
            yield from _texts_in(inner, pointer + reference_token(name))
    elif is_array(value):
        for place, inner in enumerate(value):
            yield from _texts_in(inner, pointer + reference_token(place))
