"""``holdfast prune``: what ended long ago goes, whatever retention it ended under."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture
def ended(shop, worker):
    """Two that completed, one that failed, and one that goes on."""
    for number in "12":
        shop.json("start", "checkout", '["visa"]', "--id", number, "--wait")
    shop.path("broken").touch()
    shop.refusal("start", "checkout", '["visa"]', "--id", "bad", "--wait")
    shop.path("broken").unlink()
    shop.json("start", "approval", "7", "--id", "open")
    return shop


def ids(shop):
    return {each["id"] for each in shop.json("ls")["executions"]}


def test_only_what_has_ended_so_long_ago_goes(ended):
    assert ended.json("prune", "--older-than", "1h") == {"action": "prune", "changed": 0, "failed": []}
    assert ended.json("prune", "--older-than", "0s")["changed"] == 3
    assert ids(ended) == {"open"}
    assert [row["action"] for row in ended.json("audit")["changes"]] == ["prune", "prune"]


def test_only_of_these_statuses_and_this_workflow(ended):
    assert ended.json("prune", "--older-than", "0s", "--workflow", "approval")["changed"] == 0
    assert ended.json("prune", "--older-than", "0s", "--status", "failed", "--status", "cancelled")["changed"] == 1
    assert ids(ended) == {"1", "2", "open"}
    assert ended.invoke("prune", "--older-than", "0s", "--status", "running").exit_code == 2
    assert ended.invoke("prune").exit_code == 2


def test_a_dry_run_only_tells(ended):
    result = ended.invoke("prune", "--older-than", "0s", "--dry-run")
    assert "3 would be deleted: leave out --dry-run to do it" in result.output
    assert ids(ended) == {"1", "2", "bad", "open"}
    assert ended.json("audit")["changes"] == []


def test_what_was_terminated_waits_for_a_worker_that_releases_its_children(shop, monkeypatch, request):
    shop.json("start", "approval", "7", "--id", "a")
    worker = request.getfixturevalue("worker")
    worker.run(_suspended(worker.app.handle("approval", "a")))
    monkeypatch.setattr("holdfast.workflows.unclaimed._part_from_children", _never)
    shop.json("terminate", "approval", "a")
    left = shop.json("prune", "--older-than", "0s")
    assert (left["changed"], [each["code"] for each in left["failed"]]) == (0, ["invalid_state"])
    assert "released its children" in left["failed"][0]["message"]
    assert "released its children" in shop.refusal("delete", "approval", "a")["message"]
    assert ids(shop) == {"a"}


async def _suspended(handle):
    while (await handle.status()).status != "SUSPENDED":
        await asyncio.sleep(0.01)


async def _never(*_):
    pass
