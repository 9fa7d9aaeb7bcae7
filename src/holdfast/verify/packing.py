"""The code of the trial function: this Holdfast and what it needs, as one zip file."""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import holdfast
from holdfast.errors import ConfigurationError

NEEDED: Final = ("apsw", "click", "msgspec")
"""What Holdfast imports on Lambda besides botocore, which Lambda brings along
(https://docs.aws.amazon.com/lambda/latest/dg/lambda-python.html)."""

PYTHON: Final = "3.13"
PLATFORMS: Final = ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64")
"""What runs on Lambda's Amazon Linux 2023 on arm64."""

NO_TIME: Final = (1980, 1, 1, 0, 0, 0)


async def packed(*, for_this_machine: bool) -> bytes:
    """The zip file: for Lambda, or ``for_this_machine`` and this Python, where an emulator runs.

    Raises ``ConfigurationError`` if pip cannot find what is needed for Lambda.
    """
    if for_this_machine:
        return _zip([*_own(), *(file for name in NEEDED for file in _installed(name))])
    with tempfile.TemporaryDirectory() as folder:
        await _fetch(Path(folder))
        return _zip([*_own(), *_files(Path(folder), "")])


async def _fetch(folder: Path) -> None:
    pinned = [f"{name}=={distribution(name).version}" for name in NEEDED]
    platforms = [option for each in PLATFORMS for option in ("--platform", each)]
    command = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    options = ("--only-binary", ":all:", "--python-version", PYTHON, "--target", str(folder), *platforms)
    pip = await asyncio.create_subprocess_exec(
        *command, *options, *pinned, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, told = await pip.communicate()
    if pip.returncode:
        raise ConfigurationError(f"pip cannot fetch {', '.join(pinned)} for Lambda: {told.decode()[-300:].strip()}")


def _own() -> Iterator[tuple[str, bytes]]:
    return _files(Path(holdfast.__file__).parent, "holdfast/")


def _files(folder: Path, below: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield below + path.relative_to(folder).as_posix(), path.read_bytes()


def _installed(name: str) -> Iterator[tuple[str, bytes]]:
    for file in distribution(name).files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            yield file.as_posix(), Path(str(file.locate())).read_bytes()


def _zip(files: list[tuple[str, bytes]]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files:
            archive.writestr(zipfile.ZipInfo(path, NO_TIME), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()
