"""The store in trouble: no room, no right to write, or not the one that is meant."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.strangers import STRANGER
from tests.troubles.stage import Stage, trouble

from holdfast import persist
from holdfast.backends.sqlite import connection
from holdfast.errors import StoreUnavailable

ROOM_BYTES = 2**19
TAKEN_PAGES = 40


async def fill(stage: Stage) -> None:
    planted = stage.code()
    async with planted.app:
        await planted.approval.start(id="approval-1")


async def write_until_full(stage: Stage) -> None:
    planted = stage.code()
    async with planted.app:
        for number in range(TAKEN_PAGES):
            await planted.quote.start(os.urandom(16_000).hex(), id=f"quote-{number}")


@contextlib.contextmanager
def full_disk(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """As root a small disk without a free byte; else SQLite and the doctor are told of one."""
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "tmpfs", folder], check=False, capture_output=True
        ).returncode
    )
    if not mounted:
        patch.setattr(connection, "WRITER_PRAGMAS", {**connection.WRITER_PRAGMAS, "max_page_count": TAKEN_PAGES})
        patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(ROOM_BYTES, ROOM_BYTES, 0))
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "-l", folder], check=True)


@trouble("a full disk", "doctor")
def test_a_full_disk(tmp_path, servers, monkeypatch):
    stage = Stage(tmp_path / "small")
    stage.environment["PLANTED_CLOSED"] = servers.closed
    stage.folder.mkdir()
    monkeypatch.setattr(persist, "CALLER_PATIENCE_SECONDS", 0.1)
    with full_disk(stage.folder, monkeypatch):
        with pytest.raises(StoreUnavailable, match="is full. Nothing of this write was applied; free some space"):
            asyncio.run(write_until_full(stage))
        told = stage.look("doctor")
    assert "fail  space         the disk is full" in told
    assert "free some space, and workers go on by themselves" in told


@trouble("a store that is read-only", "doctor")
def test_a_store_that_is_read_only(servers):
    with tempfile.TemporaryDirectory() as name:
        stage = Stage(Path(name))
        stage.environment["PLANTED_CLOSED"] = servers.closed
        asyncio.run(fill(stage))
        stage.look("doctor")  # all that a command loads is loaded, while this process may read it
        for path in (*stage.folder.iterdir(), stage.folder):
            path.chmod(0o500 if path.is_dir() else 0o400)
            if os.geteuid() == 0:
                os.chown(path, STRANGER, STRANGER)
        as_root = os.geteuid() == 0
        if as_root:
            os.seteuid(STRANGER)
        try:
            told = stage.look("doctor")
        finally:
            if as_root:
                os.seteuid(0)
            stage.folder.chmod(0o700)
    assert "fail  file" in told
    assert "shop.db is read-only for this user. Make the file and its folder writable" in told


@trouble("a wrong home", "doctor")
def test_a_wrong_home(stage, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    asyncio.run(fill(stage))
    told = stage.holdfast("doctor --home sqlite:///shopp.db")
    assert f"there is no database {stage.folder}/shopp.db" in told
    assert "Correct the URL" in told
    (stage.folder / "others.py").write_text(OTHERS, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "others", raising=False)
    told = stage.look(f"doctor -a others:app --home {stage.home}")
    assert "none of the 1 executions here is of a workflow of the app: is this the home that you mean?" in told


OTHERS = """
import holdfast as hf

app = hf.App("others", home="sqlite:///others.db")


@app.workflow
async def letter() -> None:
    pass
"""
