"""``holdfast bulk``: the same for all executions that are chosen."""

from __future__ import annotations

import asyncio
import json

import pytest

import holdfast as hf


@pytest.fixture
def failed(shop, worker):
    """Three executions that have failed, and what made them fail mended."""
    shop.path("broken").touch()
    for number in range(3):
        shop.refusal("start", "checkout", '["visa"]', "--id", str(number), "--tag", f"n={number}", "--wait")
    shop.path("broken").unlink()
    return shop


def ids(shop, *options):
    return {each["id"] for each in shop.json("ls", *options)["executions"]}


def test_without_yes_it_only_tells(failed):
    answer = failed.json("bulk", "retry", "--workflow", "checkout", "--status", "FAILED")
    assert (answer["dry_run"], answer["matching"]) == (True, 3)
    assert {each["id"] for each in answer["first"]} == {"0", "1", "2"}
    assert "3 would be retried: add --yes to do it" in failed.invoke("bulk", "retry", "--status", "FAILED").output
    assert ids(failed, "--status", "FAILED") == {"0", "1", "2"}
    assert ids(failed, "--error", "out of PAPER") == {"0", "1", "2"}
    assert ids(failed, "--error", "no such text") == set()


def test_with_yes_it_does_it(failed):
    assert failed.json("bulk", "retry", "--tag", "n=1", "--yes") == {"action": "retry", "changed": 1, "failed": []}
    assert failed.json("bulk", "retry", "--all", "--yes")["changed"] == 2
    for number in "012":
        assert failed.json("result", "checkout", number)["result"] == {"payment": "pay-visa-100"}
    assert failed.invoke("bulk", "retry", "--all", "--yes").output == "0 retried\n"
    assert failed.invoke("bulk", "retry", "--all").output == "no executions\n"


def test_cancelling_and_terminating_need_no_code(shop, worker):
    for number in range(3):
        shop.json("start", "approval", "7", "--id", str(number))
    assert shop.json("bulk", "terminate", "--workflow", "approval", "--older-than", "1h", "--yes")["changed"] == 0
    assert shop.json("bulk", "cancel", "--workflow", "approval", "--reason", "enough", "--yes")["changed"] == 3
    for number in "012":
        assert "enough" in shop.refusal("result", "approval", number)["message"]
    shop.json("start", "approval", "7", "--id", "3")
    assert shop.invoke("bulk", "terminate", "--status", "suspended", "--all", "--yes").exit_code == 2
    assert shop.json("bulk", "terminate", "--since", "1h", "--yes")["changed"] == 1


def test_what_has_ended_is_deleted_and_what_goes_on_is_not(failed):
    failed.json("start", "approval", "7", "--id", "open")
    assert failed.json("bulk", "delete", "--all")["matching"] == 3
    assert failed.json("bulk", "delete", "--all", "--yes") == {"action": "delete", "changed": 3, "failed": []}
    assert ids(failed) == {"open"}


def test_what_fails_is_told_at_the_end(shop):
    old = hf.App("old", home=shop.home)

    @old.workflow
    async def gone() -> None:
        raise LookupError("no")

    async def fail() -> None:
        async with old.worker():
            for id in "ab":
                with pytest.raises(hf.ExecutionFailed):
                    await (await gone.start(id=id))

    asyncio.run(fail())
    result = shop.invoke("bulk", "retry", "--status", "FAILED", "--yes")
    assert result.exit_code == 1
    assert "0 retried\nnot retried: gone b: no workflow is called 'gone' here" in result.output
    answer = json.loads(shop.invoke("bulk", "retry", "--status", "FAILED", "--yes", "--json").output)
    assert [(each["id"], each["code"]) for each in answer["failed"]] == [("b", "unknown_name"), ("a", "unknown_name")]


def test_somebody_has_to_say_which(shop, worker):
    shop.json("start", "approval", "7", "--id", "a")
    for command in ("retry", "cancel", "terminate"):
        result = shop.invoke("bulk", command, "--yes")
        assert result.exit_code == 2
        assert "Which executions?" in result.output
    assert shop.refusal("bulk", "cancel", "--status", "COMPLETED", "--yes")["code"] == "invalid_input"


def test_all_are_paused_signalled_and_resumed(shop, worker):
    for id in "ab":
        shop.json("start", "approval", "7", "--id", id)
    assert shop.json("bulk", "pause", "--workflow", "approval", "--yes")["changed"] == 2
    assert ids(shop, "--status", "PAUSED") == {"a", "b"}
    assert shop.invoke("bulk", "signal", "decision", '"yes"', "--all", "--yes").exit_code == 2, "it needs an id"
    for name, value in (("other", "1"), ("other", "1"), ("decision", '"yes"')):
        assert shop.json("bulk", "signal", name, value, "--signal-id", name, "--all", "--yes")["changed"] == 2
    assert shop.json("bulk", "resume", "--all", "--yes")["changed"] == 2
    for id in "ab":
        assert shop.json("result", "approval", id)["result"] == "yes: 7"
        history = [(each["kind"], each["name"]) for each in shop.json("show", "approval", id)["timeline"]]
        assert history.count(("signal", "other")) <= 1


def test_the_callbacks_of_all_are_answered_and_one_that_waits_for_none_is_told(shop, worker):
    token = worker.start_parcel()
    shop.json("start", "approval", "7", "--id", "x")
    told = shop.invoke("bulk", "answer", "callback#0", "--value", '"arrived"', "--all", "--yes")
    assert told.exit_code == 1
    assert "1 answered\nnot answered: approval x: " in told.output
    assert "waits for no callback 'callback#0' now" in told.output
    assert token not in told.output
    assert shop.json("result", "parcel", "a")["result"] == "arrived"
    failed = shop.json("bulk", "answer", "callback#0", "--fail", "lost", "--workflow", "parcel", "--yes")
    assert failed["changed"] == 0, "it has ended"


def test_all_are_forked_and_one_without_the_operation_is_told(failed):
    failed.json("start", "approval", "7", "--id", "open")
    fork = ("bulk", "fork", "--before", "charge#0", "--suffix=-2", "--all", "--yes")
    told = failed.invoke(*fork)
    assert told.exit_code == 1
    assert "3 forked" in told.output
    assert "not forked: approval open: " in told.output
    assert failed.json("result", "checkout", "1-2")["result"] == {"payment": "pay-visa-100"}
    assert ids(failed) == {"0", "1", "2", "0-2", "1-2", "2-2", "open"}
    assert "0 forked" in failed.invoke(*fork).output
    assert len(ids(failed)) == 7, "a repeat makes no more"
