"""``holdfast cost``: what things would cost on AWS."""

from __future__ import annotations

import json
import re
from random import Random

import pytest

from holdfast.cli import cost_trial


def test_the_tables_are_printed_with_the_cell_that_does_not_follow(shop):
    result = shop.invoke("cost", "tables")
    assert result.exit_code == 0
    assert "1 KB        8.25                1.65            8.00            0.525" in result.stdout
    assert "3.725* (3.735)" in result.stdout
    assert "us-east-1, on demand" in result.stdout


def test_the_tables_in_json(shop):
    answer = json.loads(shop.invoke("cost", "tables", "--json").stdout)
    by_size, by_count = answer["tables"]
    assert by_size["rows"][1] == {
        "size": "8 KB",
        "Durable checkpoint": 10.0,
        "own checkpoint": 6.025,
        "Durable replay": 8.0,
        "own replay": 0.65,
    }
    assert by_count["rows"][3]["8"] == 3.725
    assert answer["printed_otherwise"] == [{"row": "16 KB+", "column": "8", "printed": 3.735}]


def lines(bill):
    return {each["what"]: each["count"] for each in bill["lines"] if each["count"] and not each["assumed"]}


def test_a_workflow_is_priced_by_what_it_asks_of_the_store(shop):
    answer = shop.json("cost", "workflow", "checkout", '["visa"]', "--yes", "--what-if", "aws", "--runs", "3")
    assert answer["outcomes"] == "3 COMPLETED"
    assert answer["requests_each"] == 3
    assert lines(answer["bill"]) == {"DynamoDB: written": 5, "SQS: sent": 1, "SQS: received, deleted": 2}
    assert answer["bill"]["metered_usd_per_million"] == 5 * 0.625 + 3 * 0.4
    assert answer["in_batches_usd_per_million"] == pytest.approx(answer["bill"]["usd_per_million"] - 1.8 * 0.4)
    assert [each["what"] for each in answer["elsewhere"]] == [
        "AWS Lambda Durable Functions",
        "rolling your own",
        "AWS Step Functions, standard",
    ]
    assert not shop.path("shop.db").exists()


def test_in_workers_no_queue_and_no_function_is_paid_for(shop):
    answer = shop.json("cost", "workflow", "checkout", '["visa"]', "--yes", "--what-if", "aws-workers")
    assert lines(answer["bill"]) == {"DynamoDB: written": 5}
    assert answer["bill"]["usd_per_million"] == 5 * 0.625


def test_a_workflow_runs_once(shop):
    answer = shop.json("cost", "workflow", "checkout", '["visa"]', "--yes")
    assert answer["outcomes"] == "1 COMPLETED"


@pytest.mark.parametrize("command", [("workflow", "checkout", '["visa"]'), ("actor", "Cart", "u1", "add", '["lamp"]')])
def test_no_code_runs_that_was_not_confirmed(shop, command):
    refused = shop.invoke("cost", *command)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert "for real" in refused.stderr
    assert not refused.stdout


def test_how_often_a_method_runs_is_told(shop):
    call = ("cost", "actor", "Cart", "u1", "add", '["lamp"]')
    assert "Cart.add, twice for real" in " ".join(shop.invoke(*call).stderr.split())
    assert "Cart.add, 11 times for real" in " ".join(shop.invoke(*call, "--runs", "10").stderr.split())


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 130)])
def test_a_person_is_asked(shop, monkeypatch, typed, code):
    monkeypatch.setattr(cost_trial, "is_interactive", lambda: True)
    result = shop.invoke("cost", "workflow", "checkout", '["visa"]', stdin=typed)
    assert result.exit_code == code
    assert "Run it?" in result.stderr
    assert ("COMPLETED" in result.stdout) == (code == 0)


SCHEDULED = """
from pathlib import Path

import holdfast as hf

app = hf.App("scheduled")


@app.cron("* * * * *")
async def bill_everybody() -> None:
    Path("billed").touch()


@app.workflow
async def wait() -> None:
    await hf.sleep("2h")
    await hf.sleep("30d")
"""


@pytest.mark.parametrize("place", ["aws", "aws-workers"])
def test_schedules_do_not_fire_in_the_hours_of_a_trial(shop, place):
    shop.path("scheduled.py").write_text(SCHEDULED)
    result = shop.invoke("cost", "workflow", "wait", "--yes", "--what-if", place, app="scheduled:app")
    assert "1 COMPLETED" in result.stdout
    assert not shop.path("billed").exists()


def test_retries_count_elsewhere(shop):
    answer = shop.json("cost", "workflow", "stubborn", "--yes")
    (operations,) = [each for each in answer["elsewhere"][0]["lines"] if each["unit"] == "operations"]
    assert operations["count"] == 3


def test_one_that_waits_is_priced_as_far_as_it_comes_and_not_compared(shop):
    answer = shop.json("cost", "workflow", "approval", "7", "--yes", "--runs", "2")
    assert answer["outcomes"] == "2 SUSPENDED"
    assert answer["elsewhere"] == []
    assert lines(answer["bill"])["DynamoDB: written"] > 0


def test_one_that_fails_is_priced_too(shop):
    shop.path("broken").touch()
    answer = shop.json("cost", "workflow", "checkout", '["visa"]', "--yes", "--runs", "2")
    assert answer["outcomes"] == "2 FAILED"


def test_an_actors_call_is_priced(shop):
    answer = shop.json("cost", "actor", "Cart", "u1", "add", '["lamp"]', "--yes", "--runs", "4")
    assert lines(answer["bill"]) == {"DynamoDB: written": 2.75, "DynamoDB: read": 1}, "three replies have moved"
    assert answer["elsewhere"] == []


@pytest.mark.parametrize("place", ["aws", "aws-workers"])
def test_an_actors_call_that_fails_is_priced_too(shop, place):
    result = shop.invoke(
        "cost", "actor", "Cart", "u1", "add", '["bad"]', "--yes", "--runs", "2", "--what-if", place, "--json"
    )
    assert json.loads(result.stdout)["outcomes"] == "2 FAILED"
    assert "Cart.add failed: ValueError: bad is broken" in result.stderr


FAMILY = """
import holdfast as hf

app = hf.App("family", home="sqlite:///family.db")


@app.workflow
async def child() -> None:
    await hf.sleep("10m")


@app.workflow
async def parent() -> None:
    await child()


@app.workflow
async def awaiting() -> None:
    await (await child.start())
"""


@pytest.mark.parametrize(("name", "units_without_looks", "units_of_a_look"), [("parent", 19, 5), ("awaiting", 37, 8)])
def test_looks_at_what_is_awaited_for_ten_minutes_are_eight(shop, name, units_without_looks, units_of_a_look):
    shop.path("family.py").write_text(FAMILY)
    result = shop.invoke("cost", "workflow", name, "--yes", "--json", app="family:app")
    bill = {each["what"]: each["count"] for each in json.loads(result.stdout)["bill"]["lines"]}
    assert (bill["DynamoDB: written"], bill["Lambda: invocations"]) == (
        units_without_looks + 8 * units_of_a_look,
        2 + 8,
    )


GROWING = """
import holdfast as hf

app = hf.App("growing", home="sqlite:///growing.db")


class Film(hf.Actor, app=app):
    frames: list[str] = hf.field(default_factory=list)

    async def shoot(self) -> int:
        self.frames += ["x" * 3_000_000]
        return len(self.frames)
"""


def test_an_actors_state_that_grows_too_large_is_refused_without_a_traceback(shop):
    shop.path("growing.py").write_text(GROWING)
    result = shop.invoke("cost", "actor", "Film", "f1", "shoot", "--yes", "--json", app="growing:app")
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (1, "payload_too_large")


def test_an_actors_call_in_a_worker_is_two_writes(shop):
    answer = shop.json("cost", "actor", "Cart", "u1", "add", '["lamp"]', "--yes", "--what-if", "aws-workers")
    assert lines(answer["bill"]) == {"DynamoDB: written": 2}


def test_the_settings_of_the_home_are_priced(shop):
    """The stream covers a start without an entry of the index; the index of listings has an entry for it."""
    asked = ("cost", "workflow", "checkout", '["visa"]', "--yes")
    units = [
        lines(shop.json(*asked, *settings)["bill"])["DynamoDB: written"]
        for settings in ((), ("--cover", "stream"), ("--listing",), ("--cover", "stream", "--listing"))
    ]
    assert units == [5, 3, 6, 4]
    call = ("cost", "actor", "Cart", "u1", "add", '["lamp"]', "--yes", "--what-if", "aws-workers", "--cover", "stream")
    assert lines(shop.json(*call)["bill"]) == {"DynamoDB: written": 2}


def test_in_real_time_the_loop_is_a_real_one(shop):
    answer = shop.json("cost", "workflow", "checkout", '["visa"]', "--yes", "--real-time")
    assert answer["outcomes"] == "1 COMPLETED"


def test_the_bill_is_readable_and_says_what_is_assumed(shop):
    result = shop.invoke(
        "cost", "workflow", "checkout", '["visa"]', "--yes", "--runs", "2", "--ms", "100", "--memory-mb", "128"
    )
    assert result.exit_code == 0
    assert re.search(r"DynamoDB: written +5 +write units +3.125", result.stdout)
    assert "With ten messages to each batch that is received: $" in result.stdout
    assert "Lambda: 100 ms at 128 MB" in result.stdout
    assert "In all $" in result.stdout
    assert "AWS Lambda Durable Functions" in result.stdout


def test_larger_bodies_can_be_priced_as_if_in_s3(shop):
    card = json.dumps([Random(1).randbytes(4_000).hex()])  # packed, half of that
    inline = shop.json("cost", "workflow", "checkout", card, "--yes")
    aside = shop.json("cost", "workflow", "checkout", card, "--yes", "--inline-kb", "2")
    assert "S3: bodies written" not in lines(inline["bill"])
    assert lines(aside["bill"])["S3: bodies written"] > 0


def test_what_is_unknown_is_told(shop):
    assert shop.refusal("cost", "workflow", "nothing")["code"] == "unknown_name"
    assert shop.refusal("cost", "actor", "Cart", "u1", "nothing")["code"] == "unknown_name"
