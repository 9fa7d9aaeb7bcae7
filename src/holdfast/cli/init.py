"""``holdfast init``: write a small project that runs at once and can be deployed."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import click

from holdfast.cli.output import as_json as as_json_text
from holdfast.cli.output import echo
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.cli.values import usable
from holdfast.errors import ConfigurationError
from holdfast.infra.options import PREFIX

PROJECT: Final = Path(__file__).with_name("project")
"""Its files, each with ``.txt`` at the end of its name, so that no tool takes them for modules of Holdfast."""

NAME: Final = "__NAME__"
REQUIREMENT: Final = "__REQUIREMENT__"
HIDDEN: Final = {"gitignore": ".gitignore"}


@click.command(
    "init",
    epilog=examples(
        "holdfast init shop",
        "holdfast init services/orders --name orders",
    ),
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", help="The name of the app, and of everything on AWS; by default the folder's.")
@json_option
@debug_option
def init(*, folder: Path, name: str | None, as_json: bool, debug: bool) -> None:  # noqa: ARG001 - debug is read at the root
    """Write a small project into a new folder: a workflow, an actor, their tests, and the way to AWS.

    Nothing is overwritten: a folder with anything in it is refused.
    """
    with usable(folder, "written"):
        written = write_project(folder, _name(folder) if name is None else name)
    if as_json:
        echo(as_json_text({"folder": str(folder), "files": written}))
    else:
        echo("\n".join(f"  {folder / each}" for each in written))
        echo(f"\nNext:\n  cd {folder}\n  make test\n  make run")


def _name(folder: Path) -> str:
    return re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")


def write_project(folder: Path, name: str) -> list[str]:
    """Write the files of the project into a folder that does not exist or is empty; returns their paths in it.

    Raises ``ConfigurationError`` if the folder is not empty, or if AWS would refuse the name.
    """
    if not PREFIX.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot name things on AWS: give --name, at most 20 small letters, digits and hyphens, beginning "
            "with a letter"
        )
    if folder.exists() and any(folder.iterdir()):
        raise ConfigurationError(f"{folder} is not empty, and nothing is overwritten: name a new folder")
    written: list[str] = []
    requirement = requirement_of(distribution("holdfast").read_text("direct_url.json"))
    for source in sorted(PROJECT.rglob("*.txt")):
        path = source.relative_to(PROJECT).with_suffix("")
        path = path.with_name(HIDDEN.get(path.name, path.name))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (folder / path).open("x", encoding="utf-8") as file:
            text = source.read_text(encoding="utf-8")
            file.write(text.replace(NAME, name).replace(REQUIREMENT, requirement))
        written.append(path.as_posix())
    return written


def requirement_of(origin: str | None) -> str:
    """What pip is to install as Holdfast: what is installed here, by the record of its origin ("Recording the Direct
    URL Origin of installed distributions", packaging.python.org). The bare name is right only for an installation from
    an index: a public index has another project of that name.

    >>> requirement_of('{"url": "file:///src/holdfast", "dir_info": {}}')
    'holdfast @ file:///src/holdfast'
    >>> requirement_of('{"url": "https://example.com/h.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}')
    'holdfast @ git+https://example.com/h.git@c0ffee'
    """
    if origin is None:
        return f"holdfast=={distribution('holdfast').version}"
    found = json.loads(origin)
    if (vcs := found.get("vcs_info")) is None:
        return f"holdfast @ {found['url']}"
    return f"holdfast @ {vcs['vcs']}+{found['url']}@{vcs['commit_id']}"
