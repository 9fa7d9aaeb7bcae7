"""Commits per workflow. A commit is a sync: counting them tells what a faster or slower disk would change."""

from __future__ import annotations

from typing import Any

from benchmarks.plan import Case, Dbos, Ours, Params, Row
from benchmarks.workload import Workload, in_lanes


async def commits(params: Params) -> Any:
    """Count the store's transactions: one workflow at a time, a hundred steps in a row, 64 workflows at a time."""
    it, count = Workload(params["folder"]), params["count"]
    async with it.worker():
        store = it.store
        await in_lanes(it.one_step, range(10), 1)
        before = store.commits
        await in_lanes(it.one_step, range(100), 1)
        one_step = (store.commits - before) / 100
        before = store.commits
        await it.sequence(100)
        hundred_steps = store.commits - before
        before = store.commits
        await in_lanes(it.one_step, range(count), 64)
        at_64 = (store.commits - before) / count
    return {"one_step": one_step, "hundred_steps": hundred_steps, "at_64": at_64}, it.settings


CASES = (
    Case(
        "commits",
        "commits",
        (Ours("commits", {"count": 6_400}, {"count": 640}),),
        (
            Row("commits per one-step workflow", "commits", "lower", "one_step", aim=2),
            Row("commits per workflow of 100 sequential steps", "commits", "lower", "hundred_steps", aim=101),
            Row("commits per one-step workflow, 64 at a time", "commits", "lower", "at_64"),
        ),
        (Dbos("commits"),),
        rounds=1,
    ),
)
