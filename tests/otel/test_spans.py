"""The projection: each attempt has a span of its own, even within one millisecond."""

from __future__ import annotations

from msgspec import Raw

from holdfast.failure import describe
from holdfast.otel.spans import Subject, of_entries
from holdfast.replay.entries import Done, Tried
from holdfast.workflows.record import ExecutionRecord


def test_attempts_within_one_millisecond_are_told_apart():
    record = ExecutionRecord(
        workflow="w",
        id="a",
        version="1",
        input=Raw(b"{}"),
        fingerprint="",
        created_at=1,
        secret="s",  # noqa: S106 - of no home
        nonce="n",
        run_at=1,
    )
    error = describe(ValueError("no"))
    entries = [Tried("pay#0", 5, attempt, error, 5, began=5) for attempt in (1, 2)]
    entries += [Done("pay#0", 5, "step", attempts=3, began=5)]
    spans = list(of_entries(Subject("wf#w#a", record), entries))
    assert [span.attributes["holdfast.attempt"] for span in spans] == [1, 2, 3]
    assert len({span.id for span in spans}) == 3
