"""A process of the crew is heard line by line, and ends with its standard input."""

from __future__ import annotations

import signal

import pytest

from holdfast.crew import process
from holdfast.crew.process import Child
from holdfast.errors import ConfigurationError

SPEAKER = """\
import json, os, sys
for number in range(3):
    print(json.dumps({"event": "counted", "number": number, "name": os.environ["CREW_NAME"]}), flush=True)
"""
UNTIL_THE_END = SPEAKER + "sys.stdin.read()\n"
DEAF = SPEAKER + "import threading; threading.Event().wait()\n"


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async def start(code: str) -> Child:
        (tmp_path / "spoken.py").write_text(code)
        return await Child.start("the speaker", tmp_path / "log", "spoken", CREW_NAME="Ada")

    return start


@pytest.mark.process
async def test_what_it_says_is_heard_in_order_and_it_ends_with_its_standard_input(start):
    child = await start(UNTIL_THE_END)
    assert await child.heard(lambda said: said["number"] == 2) == {"event": "counted", "number": 2, "name": "Ada"}
    assert await child.fact("number") == 0
    assert [said["number"] for said in child.said] == [0, 1, 2]
    await child.stop()
    assert await child.ended() == 0


@pytest.mark.process
async def test_one_that_does_not_listen_is_killed(start, monkeypatch):
    monkeypatch.setattr(process, "STOP_SECONDS", 0.1)
    child = await start(DEAF)
    await child.fact("number")
    await child.stop()
    assert await child.ended() == -signal.SIGKILL
    child.kill()  # it is gone already


@pytest.mark.process
async def test_one_that_ends_early_is_told_with_its_last_words(start):
    child = await start("raise SystemExit('the cellar is flooded')")
    with pytest.raises(ConfigurationError, match=r"the speaker \(process \d+\) ended early: the cellar is flooded"):
        await child.fact("url")
    assert await child.ended() == 1
