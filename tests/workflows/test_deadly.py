"""What kills its process each time is parked, and everything else goes on (G1)."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Self

import pytest

import holdfast as hf

MOST = 3

PROGRAM = """
import asyncio, os, pathlib, sys
import holdfast as hf

folder = pathlib.Path(sys.argv[1])
app = hf.App("shop", home=f"sqlite:///{folder}/shop.db", limits=hf.Limits(most_deaths=3))

def mended() -> bool:
    return (folder / "mended").exists()

def note(line: str) -> None:
    with open(folder / "notes", "a") as notes:
        notes.write(line + "\\n")

@app.step
async def poison() -> str:
    note(f"poison {hf.current().attempt}")
    if not mended():
        os._exit(9)
    return "mended"

@app.step
async def slow(n: int) -> int:
    note(f"slow {n}")
    await asyncio.sleep(0.5)
    return n

@app.workflow
async def deadly() -> str:
    return await poison()

@app.workflow
async def deadly_body() -> str:
    if not mended():
        note("body")
        os._exit(9)
    return "mended"

@app.workflow
async def innocent() -> int:
    return sum([await slow(n) for n in range(3)])

@app.workflow
async def patient() -> int:
    return await slow(0)

if __name__ == "__main__":
    app.run()
"""


@pytest.fixture
def shop(tmp_path: Path) -> dict[str, object]:
    """The program's own names, in this process: for a client, and for a worker once it is mended."""
    (tmp_path / "program.py").write_text(PROGRAM)
    names: dict[str, object] = {"__name__": "program"}
    sys.argv[1:], before = [str(tmp_path)], sys.argv[1:]
    try:
        exec(compile(PROGRAM, "program", "exec"), names)  # noqa: S102 - the text above
    finally:
        sys.argv[1:] = before
    return names


class Supervisor:
    """Starts the worker again whenever it dies."""

    def __init__(self, folder: Path) -> None:
        self.deaths = 0
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._keeps = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keeps.cancel()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _keep(self) -> None:
        source = str(Path(hf.__file__).parents[1])
        while True:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(self._folder / "program.py"),
                str(self._folder),
                env=os.environ | {"PYTHONPATH": source},
                stderr=asyncio.subprocess.DEVNULL,
            )
            await self._process.wait()
            self.deaths += 1


@pytest.mark.process
async def test_a_step_that_kills_its_process_is_parked_and_its_neighbour_ends(shop, tmp_path, reaches):
    app, deadly, innocent = shop["app"], shop["deadly"], shop["innocent"]
    async with app:
        parked = await deadly.start(id="p")
        fine = await innocent.start(id="i")
        async with Supervisor(tmp_path) as supervisor:
            status = await reaches(parked, "BLOCKED")
            assert await fine.result("60s") == 3
            assert supervisor.deaths == MOST
        assert "its process died 3 times in a row, while it had poison#0 under way" in status.blocked
        assert "holdfast resume" in status.blocked
        notes = (tmp_path / "notes").read_text().split("\n")
        assert [line for line in notes if line.startswith("poison")] == ["poison 1", "poison 2", "poison 3"]
        (tmp_path / "mended").touch()
        async with app.worker():
            await parked.signal("anything")  # a ring is no reason to go on
            await patient_neighbour(shop)
            assert (await reaches(parked, "BLOCKED")).blocked == status.blocked
            await parked.resume()
            assert await parked.result("60s") == "mended"


async def patient_neighbour(shop: dict[str, object]) -> None:
    """Something that takes its turn behind what was rung for before."""
    assert await (await shop["patient"].start(id="n")).result("60s") == 0


@pytest.mark.process
async def test_a_body_that_kills_its_process_is_parked_too(shop, tmp_path, reaches):
    app, deadly_body = shop["app"], shop["deadly_body"]
    async with app:
        parked = await deadly_body.start(id="b")
        async with Supervisor(tmp_path):
            status = await reaches(parked, "BLOCKED")
        assert "in its body" in status.blocked
        (tmp_path / "mended").touch()
        async with app.worker():
            assert (await parked.status()).status == "BLOCKED"  # a worker that starts does not look at it
            await parked.resume()
            assert await parked.result("60s") == "mended"
