"""The definition that a command of ``holdfast asl`` is about: of a file, or of a template, with its substitutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct

from holdfast.asl.definition import Machine, parse
from holdfast.asl.sources import Source, machines_of, source_of
from holdfast.asl.validation import Profile, refuse_invalid
from holdfast.cli.values import tag, usable

DEFINITION: Final = click.Path(path_type=Path, dir_okay=False)


class Meant(Struct, frozen=True):
    """The text of a definition, and what to call it. Lines of a text that a template's functions make say nothing."""

    name: str
    text: str
    in_template: bool = False


class Given(Struct, frozen=True):
    """Which definition is meant: that of ``resource`` if the file is a template."""

    file: Path
    resource: str | None
    values: Mapping[str, str]

    @property
    def name(self) -> str:
        """What to call the machine."""
        return self.source().name or self.file.name.partition(".")[0]

    def source(self) -> Source:
        """The definition. Raises ``InvalidInput``, and ``UsageError`` for a file that cannot be read."""
        with usable(self.file, "read"):
            return source_of(self.file, self.resource, self.values)

    def machine(self) -> Machine:
        """The machine. Raises ``InvalidInput`` for a definition that Step Functions would refuse."""
        text = self.source().text
        refuse_invalid(text, self.file.name, Profile(aws=False))
        return parse(text)

    def each(self) -> list[Meant]:
        """All definitions that are meant: a template has several if none is named."""
        with usable(self.file, "read"):
            names = machines_of(self.file)
            if names is None:
                return [Meant(str(self.file), self.source().text)]
            named = names if self.resource is None else [self.resource]
            return [
                Meant(f"{self.file}#{each}", source_of(self.file, each, self.values).text, in_template=True)
                for each in named or [""]
            ]


def of_definition(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say which definition of the file is meant, and what its names stand for: as ``given``."""

    @wraps(function)
    def command(*, file: Path, resource: str | None, substitute: tuple[str, ...], **options: Any) -> Any:
        return function(given=Given(file, resource, values_in(substitute)), **options)

    return with_names(click.argument("file", metavar="FILE", type=DEFINITION)(command))


def with_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``--resource`` and ``--substitute``."""
    substitute = click.option(
        "--substitute",
        metavar="NAME=VALUE",
        multiple=True,
        help="What ${NAME} in the definition stands for; in a template also Ref (NAME) and Fn::GetAtt (NAME.Arn).",
    )
    resource = click.option(
        "--resource", metavar="ID", help="The state machine in a template of CloudFormation or SAM, if it has several."
    )
    return resource(substitute(function))


def values_in(substitute: tuple[str, ...]) -> dict[str, str]:
    """The values of names, as they were written."""
    return dict(tag(each) for each in substitute)


__all__ = ["DEFINITION", "Given", "of_definition", "values_in", "with_names"]
