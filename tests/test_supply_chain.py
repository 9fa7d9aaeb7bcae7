"""What is installed is what was locked, file for file; and the wheel says what it is made of."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from tests.infra.tools import ROOT
from tools.audited import Outcome, audited
from tools.sbom import EXTRAS, bill, packages

LOCKS = sorted((ROOT / "locks").glob("*.txt"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SBOM = ROOT / "locks" / "holdfast.cdx.json"

OF_EACH_LOCK = pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)


@OF_EACH_LOCK
def test_each_package_of_a_lock_has_one_version_and_digests_of_its_files(lock: Path) -> None:
    lines = lock.read_text().splitlines()
    entry = re.compile(r"[a-z0-9.-]+==\S+( ; [^\\]+)? \\")
    digest = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
    assert any(entry.fullmatch(line) for line in lines)
    odd = [line for line in lines if not (entry.fullmatch(line) or digest.fullmatch(line) or "    #" in line[:5])]
    assert odd == [], "no address, no option, nothing without a digest"
    for line, following in zip(lines, lines[1:], strict=False):
        assert not entry.fullmatch(line) or digest.fullmatch(following), line


def wanted(lock: str) -> list[Requirement]:
    """What a lock has to hold, by the file that it was made from."""
    extras = PROJECT["optional-dependencies"]
    match lock:
        case "core":
            texts = PROJECT["dependencies"]
        case "dev":
            own = [each for name in ("asl", "aws", "dashboard", "otel", "redis", "server") for each in extras[name]]
            texts = [*PROJECT["dependencies"], *own, *(each for each in extras["dev"] if "holdfast" not in each)]
            texts += wanted_in("build")
        case "extras":
            texts = [*PROJECT["dependencies"], *(each for name in EXTRAS for each in extras[name])]
        case _:
            texts = wanted_in(lock)
    return [Requirement(each) for each in texts]


def wanted_in(lock: str) -> list[str]:
    lines = (ROOT / "locks" / f"{lock}.in").read_text().splitlines()
    return [text for line in lines if (text := line.partition("#")[0].strip())]


@OF_EACH_LOCK
def test_a_lock_holds_what_is_wanted(lock: Path) -> None:
    locked = {each.name: each.version for each in packages(lock.read_text())}
    for each in wanted(lock.stem):
        assert each.specifier.contains(locked[each.name.lower().replace("_", "-")]), f"{each}: run `make lock`"


IMPORTED_AS = {
    "aws-cdk-lib": "aws_cdk",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "pyyaml": "yaml",
}
"""The packages whose modules have another name."""


def modules_imported(package: Path) -> set[str]:
    """The modules that a package imports, or loads by ``import_module``, and the packages that they are in."""
    found: set[str] = set()
    for node in (each for path in package.rglob("*.py") for each in ast.walk(ast.parse(path.read_text()))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
            case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(module)), *_]):
                found.add(module)
            case _:
                pass
    parts = (name.split(".") for name in found)
    return {".".join(each[:length]) for each in parts for length in range(1, len(each) + 1)}


def test_what_users_get_is_imported_somewhere() -> None:
    extras = {name: texts for name, texts in PROJECT["optional-dependencies"].items() if name != "dev"}
    names = [Requirement(text).name for texts in (PROJECT["dependencies"], *extras.values()) for text in texts]
    imported = modules_imported(ROOT / "src" / "holdfast")
    assert [name for name in names if IMPORTED_AS.get(name, name) not in imported] == []
    assert set(extras) == {*EXTRAS}


def test_what_is_imported_is_found_in_each_form(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "import one.two\nfrom three.four import five\nfrom . import six\nimport_module('seven.eight')\n"
    )
    assert modules_imported(tmp_path) == {"one", "one.two", "three", "three.four", "seven", "seven.eight"}


def test_what_runs_here_is_what_was_locked() -> None:
    locked = {each.name: each.version for each in packages((ROOT / "locks" / "dev.txt").read_text())}
    names = ("msgspec", "apsw", "click", "pytest", "hypothesis")
    assert {name: version(name) for name in names} == {name: locked[name] for name in names}, "run `make test`"


def test_nothing_is_installed_but_by_a_lock() -> None:
    places = [ROOT / "Makefile", *(ROOT / "tools").iterdir(), *(ROOT / "tests").rglob("*.py")]
    places += [ROOT / ".ci" / "run", *(ROOT / "examples").rglob("*.py")]
    installing = re.compile(r"""pip["',\s]+install\b(?! '\.)""")
    found = {
        place.relative_to(ROOT).as_posix()
        for place in places
        if place.is_file() and place != Path(__file__) and installing.search(place.read_text())
    }
    only_its_own_wheel = {"tests/cli/test_init.py"}
    assert found == {"tools/install", "tools/locked-environment", "examples/on_aws/build.py"} | only_its_own_wheel
    for place in found:
        text = (ROOT / place).read_text()
        assert "--require-hashes" in text, place
        assert re.search(r"--only-binary\W+:all:", text), f"{place}: a source would run its own code, unlocked"


def wheel(folder: Path, content: str) -> Path:
    """A wheel of one module."""
    folder.mkdir()
    path = folder / "brick-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("brick.py", content)
        archive.writestr("brick-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: brick\nVersion: 1.0\n")
        archive.writestr("brick-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("brick-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.slow
@pytest.mark.process
def test_a_file_that_is_not_what_was_locked_is_refused(tmp_path: Path) -> None:
    """Somebody has put another file under the same name and version."""
    honest, forged = wheel(tmp_path / "honest", "SOUND = True"), wheel(tmp_path / "forged", "SOUND = False")
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "locked-environment", tmp_path / "tools")
    (tmp_path / "locks").mkdir()
    digest = hashlib.sha256(honest.read_bytes()).hexdigest()
    (tmp_path / "locks" / "brick.txt").write_text(f"brick==1.0 \\\n    --hash=sha256:{digest}\n")

    def install(folder: Path) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        return subprocess.run(
            [tmp_path / "tools" / "locked-environment", "brick", sys.executable],
            env=kept | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull},
            capture_output=True,
            text=True,
            check=False,
        )

    refused = install(forged.parent)
    assert refused.returncode != 0
    assert digest in refused.stderr
    assert not list(tmp_path.glob(".tools/*/installed"))
    installed = install(honest.parent)
    assert installed.returncode == 0, installed.stderr
    programs = Path(installed.stdout.strip())
    said = subprocess.run(
        [programs / "python", "-c", "import brick; print(brick.SOUND)"], check=True, capture_output=True, text=True
    )
    assert said.stdout == "True\n"


# ── The bill of materials ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_bill_is_that_of_the_locks() -> None:
    made = bill(PROJECT, (ROOT / "locks" / "extras.txt").read_text())
    assert json.loads(SBOM.read_text()) == made, "run `make lock`"


def test_the_bill_says_what_each_installation_brings_and_what_an_extra_does() -> None:
    made = json.loads(SBOM.read_text())
    components = {each["name"]: each for each in made["components"]}
    required = {name for name, each in components.items() if each["scope"] == "required"}
    assert required == {"apsw", "click", "msgspec"}
    assert [each["value"] for each in components["h11"]["properties"]] == ["dashboard", "server"]
    of = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert of[made["metadata"]["component"]["bom-ref"]] == [components[name]["purl"] for name in sorted(required)]
    assert components["urllib3"]["purl"] in of[components["botocore"]["purl"]]
    references = [each["bom-ref"] for each in made["components"]]
    assert len(set(references)) == len(references)
    assert {other for others in of.values() for other in others} <= set(references)


@pytest.mark.slow
@pytest.mark.process
def test_the_wheel_carries_the_bill(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        (name,) = [each for each in archive.namelist() if "/sboms/" in each]
        assert name == f"holdfast-{PROJECT['version']}.dist-info/sboms/{SBOM.name}"
        assert archive.read(name) == SBOM.read_bytes()


# ── What an audit says ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_audit_names_each_flaw_and_what_it_could_not_look_up() -> None:
    sound = {"name": "sound", "version": "1.0", "vulns": []}
    rotten = {"name": "rotten", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1", "3.0"]}]}
    unknown = {"name": "unknown", "skip_reason": "not found"}
    assert audited("a.txt", json.dumps({"dependencies": [sound, rotten, unknown]}), "") == (
        Outcome.FLAWED,
        [
            "audited 2 packages of a.txt: 1 known flaws",
            "FLAW PYSEC-1 in rotten 2.0, mended in 2.1, 3.0",
            "NOT AUDITED: unknown: the database does not know them",
        ],
    )
    assert audited("a.txt", json.dumps({"dependencies": [sound]}), "") == (
        Outcome.SOUND,
        ["audited 1 packages of a.txt: 0 known flaws"],
    )


def test_an_audit_that_had_no_answer_says_so() -> None:
    unknown = {"dependencies": [{"name": "unknown", "skip_reason": "not found"}]}
    assert audited("a.txt", json.dumps(unknown), "") == (
        Outcome.UNKNOWN,
        ["NOT AUDITED: a.txt: the database cannot be reached from here"],
    )
    assert audited("a.txt", "", "…\nConnectionError: no route\n") == (
        Outcome.UNKNOWN,
        ["NOT AUDITED: a.txt: ConnectionError: no route"],
    )
