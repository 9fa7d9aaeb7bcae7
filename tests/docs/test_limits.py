"""The tables of limits say what the code does, and leave nothing out."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "holdfast"
SECTION = (ROOT / "docs" / "failure-modes.md").read_text().split("## Limits")[1].split("\n## ")[0]
ROWS = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| ")]
LIMITS = {what: (limits, re.findall("`(.+?)`", constants)) for what, limits, constants in ROWS if what != "what"}
LISTED = {constant for _, constants in LIMITS.values() for constant in constants}

SIZE = re.compile(
    r"^((?:\w+_)?(?:LIMIT|LONGEST|LARGEST|MOST|NAME|INLINE)_(?:\w+_)?(?:BYTES|CHARACTERS|LEVELS|EXPRESSION)|MOST_ITEMS)\b",
    re.MULTILINE,
)

INTERNAL = {
    "actors.calling.optimistic.LARGEST_WARM_BYTES": "what is kept in memory",
    "asl.arns.LONGEST_ARN_CHARACTERS": "a rule of Step Functions' protocol",
    "asl.connections.LARGEST_RESPONSE_BYTES": "a quota of Step Functions; the state fails with AWS's text",
    "actors.turn.kept_replies.MOST_BYTES": "larger replies are items of their own",
    "asl.errors.LONGEST_CAUSE_BYTES": "a longer cause of a failed state is cut",
    "asl.errors.LONGEST_CAUSE_CHARACTERS": "a rule of Step Functions' protocol",
    "asl.errors.LONGEST_ERROR_CHARACTERS": "a rule of Step Functions' protocol",
    "asl.intrinsic_functions.LONGEST_TEXT_CHARACTERS": "a rule of the language; the state fails with AWS's text",
    "asl.maps.readers.MOST_ITEMS": "a rule of the language; a reader stops there",
    "asl.quotas.LARGEST_PAYLOAD_BYTES": "a quota of Step Functions, kept for compat='aws' alone",
    "asl.validation.maps.MOST_BATCH_BYTES": "a rule of the language, told as a diagnostic",
    "asl.validation.maps.MOST_ITEMS": "a rule of the language, told as a diagnostic",
    "asl.validation.states.NAME_CHARACTERS": "a rule of the language, told as a diagnostic",
    "backends.aws.blobs.INLINE_BYTES": "where a blob is kept",
    "backends.aws.direct.answers.LONGEST_BODY_BYTES": "a longer answer is none of DynamoDB's",
    "backends.aws.direct.answers.LONGEST_HEAD_BYTES": "a longer answer is none of DynamoDB's",
    "backends.aws.enclosing.LARGEST_MESSAGE_BYTES": "larger messages are items of their own",
    "backends.aws.enclosing.MOST_BYTES": "further messages are items of their own",
    "backends.aws.gathering.MOST_BYTES": "further messages go with the next write",
    "backends.aws.layout.LARGEST_ITEM_BYTES": "what a page of DynamoDB holds",
    "backends.aws.layout.LONGEST_PARTITION_BYTES": "what ids are bounded for",
    "backends.aws.layout.LONGEST_SORT_BYTES": "what ids are bounded for",
    "backends.aws.packing.LARGEST_PACKED_BYTES": "larger bodies go in as they are, and so to the blobs",
    "backends.aws.requests.LARGEST_TRANSACTION_BYTES": "larger commits are written in parts",
    "backends.sqlite.bell_folder.NAME_BYTES": "the name of a socket",
    "backends.sqlite.connection.WAL_LIMIT_BYTES": "when the log is cut back",
    "codec.parameters.INPUT_LIMIT_BYTES": "the same as app.LIMIT_BYTES",
    "codec.shapes.KEY_LIMIT_CHARACTERS": "what a message quotes",
    "token_file.LONGEST_BYTES": "the file of a token, which Holdfast writes itself",
    "http.states.names.LONGEST_NAME_CHARACTERS": "a rule of Step Functions' protocol",
    "http.states.starting.LARGEST_INPUT_BYTES": "a rule of Step Functions' protocol",
    "http.states.tags.LONGEST_KEY_CHARACTERS": "a rule of Step Functions' protocol",
    "http.states.tags.LONGEST_VALUE_CHARACTERS": "a rule of Step Functions' protocol",
    "http.states.tasks.LARGEST_OUTPUT_BYTES": "a rule of Step Functions' protocol",
    "http.metrics_port.LONGEST_HEAD_BYTES": "what a scraper sends",
    "moving.reading.LONGEST_LINE_BYTES": "a line of an export, which Holdfast writes itself",
    "messaging.bus_relay.LONGEST_REASON_CHARACTERS": "what is shown; the rest is cut",
    "otel.spans.LONGEST_NAME_CHARACTERS": "the name of a span; the rest is cut",
    "replay.naming.LONGEST_PATH_BYTES": "a longer path is represented by its digest",
    "tracing.LONGEST_CHARACTERS": "a longer trace context is not carried on",
    "patterns.starts.collected.MOST_BYTES": "a larger batch begins without its newest element",
    "patterns.cached.LONGEST_KEY_CHARACTERS": "longer arguments are represented by their digest",
    "workflows.waiting.LARGEST_SEARCHED_BYTES": "larger arguments of a step are not shown",
    "workflows.waiting.LONGEST_ARGUMENTS_CHARACTERS": "what is shown of a wait is cut",
    "workflows.waiting.LONGEST_ERROR_CHARACTERS": "what is shown of a wait is cut",
    "workflows.waiting.LONGEST_NAME_CHARACTERS": "what is shown of a wait is cut",
    "workflows.waiting.LONGEST_SEARCHED_CHARACTERS": "longer errors of a wait are cut before they are searched",
}
"""Sizes that refuse nothing of a user's, and why."""


def value_of(constant: str) -> float:
    module, _, name = constant.rpartition(".")
    value: float = getattr(importlib.import_module(f"holdfast.{module}"), name)
    return value


def told(constant: str) -> str:
    """A limit in the words of the table."""
    value, unit = value_of(constant), constant.rpartition("_")[2].lower()
    match unit:
        case "seconds" if value > 86_400:
            return f"{value / 86_400:,.0f} days"
        case "ms":
            return f"{value / 1000:g} seconds"
        case "expression":
            return f"{value:,} characters"
        case "bytes" | "characters" | "levels" | "seconds":
            return f"{value:,g} {unit}" if value < 1_000_000 else f"{value:,} {unit}"
        case _:
            return f"{value:,}"


@pytest.mark.parametrize("what", LIMITS)
def test_the_page_says_what_the_code_does(what: str) -> None:
    limits, constants = LIMITS[what]
    assert constants
    assert limits == "; ".join(map(told, constants))


def test_no_limit_is_left_out() -> None:
    found = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts) + f".{name}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in {"chaos", "cli", "cost", "demo", "infra", "testing", "verify"}
        for name in SIZE.findall(path.read_text())
    }
    assert found - LISTED == INTERNAL.keys()


@pytest.mark.parametrize("constant", sorted(LISTED))
def test_a_constant_is_used_where_it_is_defined(constant: str) -> None:
    """A limit that no code looks at is none."""
    module, _, name = constant.rpartition(".")
    uses = sum(len(re.findall(rf"\b{name}\b", path.read_text())) for path in SOURCE.rglob("*.py"))
    assert uses > 1, f"{module} defines {name}, and nothing uses it"
