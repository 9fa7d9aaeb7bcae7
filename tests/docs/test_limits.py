"""The tables of limits say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.actors.limited import LONGEST_ENDING_SECONDS
from holdfast.app import LIMIT_BYTES
from holdfast.backends.aws.bus import LARGEST_BYTES
from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS
from holdfast.coordination import schedule
from holdfast.coordination.idempotency.record import LONGEST_KEY_BYTES, SKEW_MS
from holdfast.crontab import LONGEST_EXPRESSION
from holdfast.duration import LONGEST_SECONDS
from holdfast.failure import MESSAGE_LIMIT_BYTES, TRACEBACK_LIMIT_BYTES, VALUES_LIMIT_BYTES
from holdfast.keys import LONGEST_KEY_BYTES as LONGEST_DOCUMENT_KEY_BYTES
from holdfast.keys import LONGEST_PART_CHARACTERS
from holdfast.patterns.atomic import MOST_ITEMS
from holdfast.patterns.session import SESSION_LIMIT_BYTES
from holdfast.ports import INLINE_BYTES

PAGE = Path(__file__).parents[2] / "docs" / "failure-modes.md"

ROWS = {
    "one value": (f"{LIMIT_BYTES:,} bytes",),
    "a body that is kept in its item": (f"{INLINE_BYTES:,} bytes",),
    "how deep": (f"{NESTING_LIMIT_LEVELS} levels",),
    "one part of the key": (f"{LONGEST_PART_CHARACTERS} characters", f"{LONGEST_DOCUMENT_KEY_BYTES} bytes"),
    "the key of an idempotent handler": (f"{LONGEST_KEY_BYTES:,} bytes",),
    "the data of a session": (f"{SESSION_LIMIT_BYTES:,} bytes",),
    "the message of a recorded error": tuple(
        f"{each:,} bytes" for each in (MESSAGE_LIMIT_BYTES, VALUES_LIMIT_BYTES, TRACEBACK_LIMIT_BYTES)
    ),
    "an event on a bus": (f"{LARGEST_BYTES:,} bytes",),
    "documents and events of one transaction": (str(MOST_ITEMS),),
    "a cron expression": (f"{LONGEST_EXPRESSION} characters",),
    "a timer, a sleep": (f"{LONGEST_SECONDS / 86_400:,.0f} days",),
    "how late a tick": (f"{schedule.GRACE_MS // 1000} seconds",),
    "how long after its lease": (f"{SKEW_MS // 1000} seconds",),
    "how long a method that was cancelled": (f"{LONGEST_ENDING_SECONDS:g} seconds",),
}


@pytest.mark.parametrize("what", ROWS)
def test_the_page_says_what_the_code_does(what: str) -> None:
    section = PAGE.read_text().split("## Limits")[1].split("\n## ")[0]
    (row,) = [line for line in section.splitlines() if line.startswith(f"| {what}")]
    limits = row.split("|")[2]
    for each in ROWS[what]:
        assert each in limits, row
        limits = limits.split(each, 1)[1]


def test_every_row_is_checked() -> None:
    section = PAGE.read_text().split("## Limits")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(rows) == len(ROWS)
