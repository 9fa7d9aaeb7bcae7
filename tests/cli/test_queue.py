"""``holdfast queue``."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner

import holdfast as hf
from holdfast.cli import main


@pytest.fixture
def home(tmp_path) -> str:
    """A home in which one letter of a queue has begun, as nothing decides any more, and four wait."""
    url = f"sqlite:///{tmp_path}/shop.db"
    app = hf.App("shop", home=url)
    mail = app.queue("mail", limit=1, rate=hf.Rate(100, per="1m", burst=9), most_waiting=1_000)

    @app.workflow(queue=mail)
    async def letter(to: str) -> str:
        await hf.sleep("1h")
        return to

    async def write() -> None:
        async with app.worker():
            for number in range(5):
                key = "ann" if number < 3 else "bob"
                handle = await letter.start(key, id=f"{key}-{number}", queued=hf.Queued(key=key, ahead="5m"))
                while not number and (await handle.status()).status != "SUSPENDED":
                    await asyncio.sleep(0.01)

    asyncio.run(write())
    return url


def invoke(*line: str, home: str, told: str = "", status: int = 0) -> str:
    result = CliRunner().invoke(main, ["queue", *line, "--home", home], input=told)
    assert result.exit_code == status, result.output
    return result.output


def test_it_lists_queues_and_what_waits(home) -> None:
    (told,) = json.loads(invoke("ls", "--json", home=home))["queues"]
    assert (told["app"], told["name"], told["limit"], told["waiting"], len(told["slots"])) == ("shop", "mail", 1, 4, 1)
    line = invoke("ls", home=home).splitlines()[1]
    assert line.split()[:6] == ["shop", "mail", "1", "1", "none", "100/60s/9"]


def test_it_shows_who_has_a_slot_and_who_waits(home) -> None:
    told = invoke("show", "mail", home=home)
    for part in (
        "shop/mail",
        "100/60s/9, none per key",
        "most waiting 1,000",
        "nobody now",
        "letter ann-0",
        "5 m",
        "bob",
    ):
        assert part in told
    told = json.loads(invoke("show", "shop/mail", "--key", "bob", "--first", "1", "--json", home=home))
    assert (told["waiting"], told["slots"], [each["id"] for each in told["first"]]) == (2, [], ["bob-3"])
    assert told["keys"] == [{"key": "bob", "held": 0, "waiting": 2}]


def test_what_is_changed_is_shown_until_it_is_reset(home) -> None:
    assert "nothing begins" in invoke("pause", "mail", home=home)
    assert "limit=7" in invoke("set", "mail", "limit=7", "rate=none", "rate_per_key=5/1s/10", home=home)
    told = json.loads(invoke("show", "mail", "--json", home=home))
    assert (told["paused"], told["limit"], told["rate"]) == (True, 7, None)
    assert told["rate_per_key"] == {"count": 5, "per": 1.0, "burst": 10}
    invoke("resume", "mail", home=home)
    invoke("reset", "mail", home=home)
    told = json.loads(invoke("show", "mail", "--json", home=home))
    assert (told["paused"], told["limit"], told["rate_per_key"]) == (False, 1, None)


@pytest.mark.parametrize("number", ["limit", "limit=ten", "speed=3", "rate=5", "rate=5/1s/2/1", "limit=1 limit=2"])
def test_a_change_that_makes_no_sense_is_refused(number, home) -> None:
    invoke("set", "mail", *number.split(), home=home, status=2)
    assert json.loads(invoke("show", "mail", "--json", home=home))["limit"] == 1


def test_a_purge_asks_first_and_then_is_an_order(home) -> None:
    assert "4 executions wait" in invoke("purge", "mail", home=home, told="n\n", status=130)
    assert "2 executions wait" in invoke("purge", "mail", "--key", "bob", home=home, told="y\n")
    assert json.loads(invoke("show", "mail", "--json", home=home))["purging"]
    assert json.loads(invoke("purge", "mail", "--yes", "--json", home=home)) == {"queue": "mail", "action": "purge"}


def test_one_that_is_not_there_is_named_with_those_that_are(home) -> None:
    assert "there are: mail" in invoke("show", "males", home=home, status=1)
    assert "there are: mail" in invoke("pause", "other/mail", home=home, status=1)
