"""A small torture run of events; and runs with planted bugs, which must go red."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
from tests.messaging.torture import points
from tests.messaging.torture.points import PLANTS, POINTS
from tests.messaging.torture.staff import Staff
from tests.torture.process import ROOT

from holdfast.backends.sqlite import open_sqlite_home
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import Refused
from holdfast.items import ABSENT, Item, Put, Write

pytestmark = [pytest.mark.process, pytest.mark.slow]


def torture(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """The exit status, the report as data, and all that was printed."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "tests.messaging.torture", "--quick", "--json", str(report), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    text = done.stdout + done.stderr
    assert report.exists(), text
    return done.returncode, json.loads(report.read_text()), text


def test_events_survive_the_death_of_their_relay_and_deliveries_that_arrive_twice(tmp_path: Path) -> None:
    status, report, text = torture(tmp_path)
    assert status == 0, text
    counters = report["counters"]
    assert counters["events published"] == counters["distinct events handled"] >= 200
    assert counters["kills at points"] >= 2 * len(POINTS)
    assert counters["deliveries that arrived twice"] > 0


@pytest.mark.torture
@pytest.mark.parametrize(("plant", "complaint"), [("mark first", r"lost \[\d"), ("no memory", r"applied twice \[\d")])
def test_a_planted_bug_is_found(tmp_path: Path, plant: str, complaint: str) -> None:
    assert plant in PLANTS
    status, report, text = torture(tmp_path, "--plant", plant)
    assert status == 1, text
    assert any(re.search(complaint, told) for told in report["complaints"]), text
    assert not any("before it was delivered" in told for told in report["complaints"]), "the engine is at fault here"


@pytest.mark.parametrize("is_delivered", [True, False])
async def test_a_repeat_before_its_delivery_is_complained_of(tmp_path: Path, is_delivered: bool) -> None:
    home = await open_sqlite_home(str(tmp_path / "home.db"))
    staff, process = Staff(tmp_path, home.store, 0, 0, Random(1), {}), Mock()
    if is_delivered:
        staff._heard({"delivered": ["p", "i#1"]}, process)
    staff._heard({"repeat": ["p", "i#1", "{}"]}, process)
    staff._repeats[0].cancel()
    told = [] if is_delivered else ["i#1 of p was to be repeated before it was delivered"]
    assert staff.complaints == told
    await home.doorbell.close()
    await home.store.close()


async def test_a_repeat_is_announced_once_its_delivery_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(points, "tell", lambda **facts: told.append(facts))
    home = await open_sqlite_home(str(tmp_path / "home.db"))
    try:
        store = points.RelayStore(home.store, [], Random(1), doubled=1.0)
        apply, reached, goes_on = store._apply, asyncio.Event(), asyncio.Event()

        async def held(*writes: Write) -> Any:
            reached.set()
            await goes_on.wait()
            return await apply(*writes)

        store._apply = held
        place = Item("actor#!torture!apply#actor#Sender#s", f"{INBOX_PREFIX}1", body=b"{}")
        writing = asyncio.ensure_future(store.write(Put(place, ABSENT)))
        await reached.wait()
        assert told == [], "a relay that dies here has delivered nothing"
        goes_on.set()
        await writing
        here = [place.partition, place.sort]
        assert told == [{"delivered": here}, {"repeat": [*here, "{}"]}]
        with pytest.raises(Refused):
            await store.write(Put(place, ABSENT))
        assert len(told) == 2, "what was refused is not delivered"
    finally:
        await home.doorbell.close()
        await home.store.close()
