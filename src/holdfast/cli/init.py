"""``holdfast init``: write a small project that runs at once and can be deployed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import click

from holdfast.cli.output import as_json as as_json_text
from holdfast.cli.output import echo
from holdfast.cli.own_wheel import own_wheel
from holdfast.cli.project_examples import EXAMPLES, SHOP
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.cli.values import usable
from holdfast.errors import ConfigurationError
from holdfast.infra.options import PREFIX

PROJECT: Final = Path(__file__).with_name("project")
"""Its files, each with ``.txt`` at the end of its name, so that no tool takes them for modules of Holdfast.

``common`` is for every project, ``shop`` for one without an example, ``example`` for one with an example.
"""

HIDDEN: Final = {"gitignore": ".gitignore"}
WHEELS: Final = "wheels"
APP: Final = re.compile(r'\bhf\.App\("[a-z]+"')

PACKAGES: Final = """## Packages

`requirements.txt` has every package with its version and the digests of its files, and pip takes no others. Holdfast is
the wheel in `wheels/`, packed from what was installed here: on the public index another project has its name. To add
packages, write them into `requirements.in` and run `make lock`, which needs [uv](https://docs.astral.sh/uv/)."""


@click.command(
    "init",
    epilog=examples(
        "holdfast init shop",
        "holdfast init services/orders --name orders",
        "holdfast init limits --example rate_limiter",
    ),
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", help="The name of the app, and of everything on AWS; by default the folder's.")
@click.option("--example", type=click.Choice(sorted(EXAMPLES)), help="Begin with this example, not with a small shop.")
@json_option
@debug_option
def init(*, folder: Path, name: str | None, example: str | None, as_json: bool, debug: bool) -> None:  # noqa: ARG001 - debug is read at the root
    """Write a small project into a new folder: a workflow, an actor, their tests, and the way to AWS.

    It brings its own copy of Holdfast, as a wheel, and a lock of all other packages. Nothing is overwritten: a folder
    with anything in it is refused.
    """
    with usable(folder, "written"):
        written = write_project(folder, _name(folder) if name is None else name, example)
    if as_json:
        echo(as_json_text({"folder": str(folder), "files": written}))
    else:
        echo("\n".join(f"  {folder / each}" for each in written))
        echo(f"\nNext:\n  cd {folder}\n  make test\n  make run")


def _name(folder: Path) -> str:
    return re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")


def write_project(folder: Path, name: str, example: str | None = None) -> list[str]:
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
    wheel = own_wheel()
    files = {path: text.encode() for path, text in _texts(name, example)}
    files |= {f"{WHEELS}/{wheel.name}": wheel.content, f"{WHEELS}/requirements.txt": wheel.requirement.encode()}
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (folder / path).open("xb") as file:
            file.write(content)
    return sorted(files)


def _texts(name: str, example: str | None) -> Iterator[tuple[str, str]]:
    """The texts of the project by their paths, with its name in them."""
    start = SHOP if example is None else EXAMPLES[example]
    words = {
        "__NAME__": name,
        "__EXAMPLE__": example or "",
        "__PACKAGES__": PACKAGES,
        "__NEEDED__": "\n".join(needed()),
        "__START__": json.dumps(start.event),
        "__LOOK__": start.look,
    }
    for part in ("common", "shop" if example is None else "example"):
        for source in sorted((PROJECT / part).rglob("*.txt")):
            path = source.relative_to(PROJECT / part).with_suffix("")
            text = source.read_text(encoding="utf-8")
            for word, meant in words.items():
                text = text.replace(word, meant)
            yield path.with_name(HIDDEN.get(path.name, path.name)).as_posix(), text
    if example is not None:
        text = (PROJECT / "examples" / f"{example}.py.txt").read_text(encoding="utf-8")
        text = text.replace(f"python examples/{example}.py", "python app.py")
        yield "app.py", APP.sub(f'hf.App("{name}"', text)


def needed() -> list[str]:
    """What Holdfast needs, extras aside, as in ``pyproject.toml``."""
    return [each for each in distribution("holdfast").requires or () if "extra ==" not in each]
