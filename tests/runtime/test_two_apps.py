"""Two apps on one home: the body of one calls a workflow of the other, whose own workers do the work."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.runtime.two_apps import EXPECTED, two_apps

import holdfast as hf


async def test_in_one_process(tmp_path: Path) -> None:
    shop, bank, order = two_apps(f"sqlite:///{tmp_path}/home.db")
    async with shop.worker(), bank.worker():
        handle = await order.start(7, id="1")
        assert await handle.result(timeout="60s") == EXPECTED
        assert shop.telemetry.counts["turn_failed"] == bank.telemetry.counts["turn_failed"] == 0


async def test_whose_worker_comes_later_finds_what_it_was_called_for(tmp_path: Path) -> None:
    shop, bank, order = two_apps(f"sqlite:///{tmp_path}/home.db")
    async with shop.worker():
        handle = await order.start(7, id="1")
        with pytest.raises(hf.WaitTimeout):
            await handle.result(timeout="50ms")
        async with bank.worker():
            assert await handle.result(timeout="60s") == EXPECTED


async def test_in_two_processes(tmp_path: Path) -> None:
    home = f"sqlite:///{tmp_path}/home.db"
    shop, _, order = two_apps(home)
    program = Path(__file__).with_name("two_apps.py")
    bank = await asyncio.create_subprocess_exec(sys.executable, program, home, "1")
    try:
        async with shop.worker():
            handle = await order.start(7, id="1")
            assert await handle.result(timeout="60s") == EXPECTED
    finally:
        bank.kill()
        await bank.wait()
