"""``holdfast prune``: what ended long ago goes, whatever retention it ended under."""

from __future__ import annotations

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
