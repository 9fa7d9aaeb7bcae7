"""Holdfast as a wheel, packed from what is installed here: for projects that must run this Holdfast and no other.

The bare name is not enough: on the public index it belongs to another project.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

from msgspec import Struct

import holdfast

METADATA: Final = ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")
"""What of its metadata is of the package; the rest is of the installation."""

NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The same files are the same wheel, whenever it is packed."""


class Wheel(Struct, frozen=True):
    """A wheel, and the line for pip that takes this one only."""

    name: str
    content: bytes
    requirement: str


def own_wheel() -> Wheel:
    """The wheel of the Holdfast that runs this.

    Its form is that of "Binary distribution format" (https://packaging.python.org/en/latest/specifications/).
    """
    installed = distribution("holdfast")
    folder = f"holdfast-{installed.version}.dist-info"
    files = dict(sorted([*_modules(), *_metadata(installed, folder)]))
    record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in files.items())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in (files | {f"{folder}/RECORD": f"{record}{folder}/RECORD,,\n".encode()}).items():
            archive.writestr(zipfile.ZipInfo(path, NO_TIME), data, zipfile.ZIP_DEFLATED)
    content = packed.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    requirement = f"holdfast=={installed.version} --hash=sha256:{digest}\n"
    return Wheel(f"holdfast-{installed.version}-py3-none-any.whl", content, requirement)


def _modules() -> Iterator[tuple[str, bytes]]:
    package = Path(holdfast.__file__).parent
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"holdfast/{path.relative_to(package).as_posix()}", path.read_bytes()


def _metadata(installed: Distribution, folder: str) -> Iterator[tuple[str, bytes]]:
    for name in METADATA:
        if (text := installed.read_text(name)) is not None:
            yield f"{folder}/{name}", text.encode()


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
