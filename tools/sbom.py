"""Prints the bill of materials of the wheel, as CycloneDX: what `locks/extras.txt` lists, and what needs what.

The packages that each installation brings are required; those that an extra brings are optional, and say which. Nothing
in it depends on the machine or the moment: the same locks make the same file.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
EXTRAS: Final = ("asl", "aws", "cdk", "dashboard", "otel", "redis", "server", "uvloop")

PINNED = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[^\s;]+)")
NAME = re.compile(r"[\w.-]+")
VIA = re.compile(r"    #(?: via)? +(?P<name>[\w.-]+)$")


@dataclass(frozen=True, slots=True)
class Package:
    """One line of a lock: who is wanted, and by which others."""

    name: str
    version: str
    wanted_by: frozenset[str]

    @property
    def url(self) -> str:
        """Its name among all packages there are (purl)."""
        return f"pkg:pypi/{self.name}@{self.version}"


def packages(lock: str) -> Iterator[Package]:
    """What a lock lists, in its order."""
    for block in re.split(r"\n(?=\w)", lock):
        if pinned := PINNED.match(block):
            via = (VIA.match(line) for line in block.splitlines())
            yield Package(pinned["name"], pinned["version"], frozenset(each["name"] for each in via if each))


def closure(wanted: Iterable[str], locked: Iterable[Package]) -> frozenset[str]:
    """The names of what is wanted, and of all that these want in turn."""
    locked = tuple(locked)
    found: set[str] = set()
    more = {_normal(each) for each in wanted}
    while more:
        found |= more
        more = {each.name for each in locked if each.wanted_by & more} - found
    return frozenset(found)


def bill(project: Mapping[str, Any], lock: str) -> dict[str, Any]:
    """The bill of a project of this table in ``pyproject.toml``."""
    locked = tuple(packages(lock))
    own = Package(project["name"], project["version"], frozenset())
    core = closure(project["dependencies"], locked)
    by_extra = {name: closure(project["optional-dependencies"][name], locked) - core for name in EXTRAS}
    direct = {_normal(each) for each in project["dependencies"]}
    wants = {own.url: [each.url for each in locked if each.name in direct]} | {
        each.url: [other.url for other in locked if each.name in other.wanted_by] for each in locked
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(own) | {"licenses": [{"license": {"id": project["license"]}}]}},
        "components": [
            _component(each)
            | {"scope": "required" if each.name in core else "optional"}
            | _extras(name for name in EXTRAS if each.name in by_extra[name])
            for each in locked
        ],
        "dependencies": [{"ref": url, "dependsOn": others} for url, others in wants.items()],
    }


def _component(package: Package) -> dict[str, Any]:
    url = package.url
    return {"type": "library", "bom-ref": url, "name": package.name, "version": package.version, "purl": url}


def _extras(names: Iterable[str]) -> dict[str, Any]:
    found = [{"name": "cdx:python:package:required-extra", "value": name} for name in names]
    return {"properties": found} if found else {}


def _normal(requirement: str) -> str:
    name = NAME.match(requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


if __name__ == "__main__":
    with (ROOT / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)["project"]
    lock = (ROOT / "locks" / "extras.txt").read_text(encoding="utf-8")
    sys.stdout.write(json.dumps(bill(table, lock), indent=1) + "\n")
