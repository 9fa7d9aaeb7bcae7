"""Lists and timelines: what they show, what they never show."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.conftest import load_twin

from holdfast.cli.output import plain, table
from holdfast.clock import duration
from holdfast.workflows.handovers import handovers_of
from holdfast.workflows.record import partition_of

STATUS_KEYS = {
    "workflow",
    "id",
    "status",
    "version",
    "run",
    "created_at",
    "ended_at",
    "due_at",
    "tags",
    "error",
    "published",
    "parent",
    "root",
    "blocked",
    "error_type",
    "waits",
}
SHOWN_KEYS = {
    "execution",
    "timeline",
    "traceback",
    "lines_left_out",
    "owner",
    "owner_alive",
    "owner_until",
    "parked",
    "waits_left_out",
    "queue",
    "untaken",
    "others",
    "troubles",
}
LINE_KEYS = {"at", "kind", "name", "outcome", "attempts", "began", "took_ms", "error"}
CANARY = "canary-4242"


@pytest.fixture
def busy(shop, worker):
    """A shop in which something has happened."""
    shop.json("start", "checkout", f'["{CANARY}"]', "--id", "good", "--tag", "customer=acme", "--wait")
    shop.path("broken").touch()
    shop.refusal("start", "checkout", '["visa"]', "--id", "bad", "--wait")
    shop.json("start", "approval", "7", "--id", "open")
    return shop


def ids(shop, *options):
    return [each["id"] for each in shop.json("ls", *options)["executions"]]


# ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_list_begins_with_the_newest(busy):
    assert ids(busy) == ["open", "bad", "good"]


def test_a_list_in_json_has_stable_keys(busy):
    page = busy.json("ls")
    assert page.keys() == {"executions", "cursor"}
    assert all(each.keys() == STATUS_KEYS for each in page["executions"])
    assert page["cursor"] is None


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--workflow", "approval"), ["open"]),
        (("--status", "FAILED"), ["bad"]),
        (("--status", "failed"), ["bad"]),
        (("--tag", "customer=acme"), ["good"]),
        (("--tag", "customer=else"), []),
        (("--since", "1h"), ["open", "bad", "good"]),
        (("--since", "2031-01-01"), []),
        (("--since", "2020-01-01T00:00+02:00"), ["open", "bad", "good"]),
        (("--limit", "1"), ["open"]),
    ],
)
def test_a_list_is_narrowed(options, found, busy):
    assert ids(busy, *options) == found


def test_a_list_goes_on_where_the_last_one_ended(busy):
    page = busy.json("ls", "--limit", "2")
    assert ids(busy, "--limit", "2", "--after", page["cursor"]) == ["good"]
    assert f"--after {page['cursor']}" in busy.invoke("ls", "--limit", "2").output


def test_a_table_is_aligned_and_names_errors(busy):
    heading, *rows = busy.invoke("ls").output.splitlines()
    assert heading.split()[:3] == ["WORKFLOW", "ID", "STATUS"]
    assert len(rows) == 3
    assert rows[1].endswith("OutOfPaper: the terminal is out of paper")
    assert rows[1].index("FAILED") == rows[2].index("COMPLETED") == heading.index("STATUS")
    assert "so far" in rows[0]


def test_an_empty_list_says_so(busy):
    assert busy.invoke("ls", "--workflow", "nothing").output == "no executions\n"


# ── Timelines ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_timeline_shows_attempts_and_their_errors(shop, worker):
    shop.json("start", "stubborn", "--id", "a", "--wait")
    lines = shop.json("show", "stubborn", "a")["timeline"]
    assert [(line["name"], line["outcome"], line["attempts"]) for line in lines] == [
        ("flaky#0", "retrying", 1),
        ("flaky#0", "retrying", 2),
        ("flaky#0", "done", 3),
    ]
    assert lines[0]["error"] == "ConnectionError: try again"
    shown = shop.invoke("show", "stubborn", "a").output
    assert "attempt 2 failed: ConnectionError: try again" in shown
    assert "stubborn a  COMPLETED" in shown


def test_a_timeline_in_json_has_stable_keys(busy):
    for id in ("good", "bad"):
        shown = busy.json("show", "checkout", id)
        assert shown.keys() == SHOWN_KEYS
        assert shown["execution"].keys() == STATUS_KEYS
        assert all(line.keys() == LINE_KEYS for line in shown["timeline"])
    paid = busy.json("show", "checkout", "good", "--payloads")
    assert paid.keys() == SHOWN_KEYS | {"input", "result"}


def test_moments_are_iso_8601_in_utc(busy):
    shown = busy.json("show", "checkout", "good")
    at = datetime.fromisoformat(shown["timeline"][0]["at"])
    assert at.tzinfo == UTC
    assert datetime.fromisoformat(shown["execution"]["created_at"]) <= at + timedelta(seconds=1)


def test_payloads_are_shown_only_if_asked_for(busy):
    for arguments in (("ls",), ("show", "checkout", "good"), ("doctor",)):
        for form in ((), ("--json",)):
            assert CANARY not in busy.invoke(*arguments, *form).output
    assert f"pay-{CANARY}-100" in busy.invoke("show", "checkout", "good", "--payloads").output
    assert busy.json("show", "checkout", "good", "--payloads")["input"] == {"card": CANARY, "cents": 100}


VAULT = """
import holdfast as hf

app = hf.App("shop", home="sqlite:///shop.db")


@app.workflow
async def visit(password: hf.Secret) -> hf.Secret:
    return password


class Vault(hf.Actor, app=app):
    held: hf.Secret = hf.field(default_factory=lambda: hf.Secret(""))

    async def put(self, secret: hf.Secret) -> hf.Secret:
        self.held = secret
        return secret
"""


def test_a_secret_is_given_and_never_shown(shop, monkeypatch):
    shop.path("vault.py").write_text(VAULT)
    monkeypatch.delitem(sys.modules, "vault", raising=False)
    given = json.dumps([{"$secret": CANARY}])
    shop.invoke("start", "visit", given, "--id", "a", app="vault:app")
    app = load_twin(shop.folder, "vault").app
    with app.sync(worker=True) as run:
        commands = (
            ("start", "visit", given, "--id", "b", "--wait"),
            ("result", "visit", "a"),
            ("show", "visit", "a", "--payloads"),
            ("actor", "call", "Vault", "k", "put", given),
            ("actor", "show", "Vault", "k"),
        )
        for arguments in commands:
            for form in ((), ("--json",)):
                result = shop.invoke(*arguments, *form, app="vault:app")
                assert (result.exit_code, "***" in result.output) == (0, True), result.output
                assert CANARY not in result.output + result.stderr
        assert run(app.registry.workflow("visit").handle("a").result()).reveal() == CANARY


def test_tokens_and_secrets_are_never_shown(shop, worker):
    token = worker.start_parcel()
    worker.run(worker.app.callback(token).fail(f"what is {token}"))
    assert shop.refusal("result", "parcel", "a")["code"] == "execution_failed"
    record = worker.run(worker.app.runtime().home.store.get(partition_of("parcel", "a")))
    secret = json.loads(record.body)["secret"]
    for arguments in (("ls",), ("show", "parcel", "a", "--payloads"), ("doctor",)):
        for form in ((), ("--json",)):
            output = shop.invoke(*arguments, *form).output
            assert token not in output
            assert secret not in output


def test_an_answered_callback_is_shown_as_one(shop, worker):
    worker.run(worker.app.callback(worker.start_parcel()).complete("3SABC"))
    shop.json("result", "parcel", "a")
    line = shop.json("show", "parcel", "a", "--payloads")["timeline"][-1]
    assert (line["kind"], line["outcome"], line["value"]) == ("callback", "received", "3SABC")


def test_what_has_not_begun_says_so(shop):
    shop.json("start", "approval", "7", "--id", "a")
    shown = shop.invoke("show", "approval", "a").output
    assert "it waits for a worker" in shown
    assert "next: holdfast run" in shown


def test_a_termination_is_seen(shop, worker):
    shop.json("start", "approval", "7", "--id", "a")
    shop.json("terminate", "approval", "a")
    assert shop.json("show", "approval", "a")["timeline"][-1]["kind"] == "terminate"


async def test_handovers_are_read_from_the_journal(tmp_path):
    from holdfast.backends.memory import open_memory_home
    from holdfast.items import Item, Put
    from holdfast.replay.entries import Marked, Truncated, encode_entries
    from holdfast.replay.journal import segment_sort

    home = open_memory_home()
    marks = [Marked("x", 1), Marked("y", 2)]
    segments = [("1-a", marks), ("1-a", marks), ("2-b", []), ("2-b", marks), (None, [Truncated(2, 3)]), ("3-c", marks)]
    for place, (owner, entries) in enumerate(segments):
        sort = segment_sort(0, place)
        lease = None if owner is None else 1
        item = Item(partition="wf#x#a", sort=sort, owner=owner, lease_until=lease, body=encode_entries(entries))
        await home.store.write(Put(item))
    (kept,) = await handovers_of(home.store, "wf#x#a", 0)
    assert (kept.place, kept.owner, kept.before, kept.takeover) == (2, "3-c", "2-b", False)


# ── How things look ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1.00 s"), (59_949, "59.9 s"), (60_000, "1 m 00 s"), (86_400_000, "1 d 0 h")],
)
def test_durations_are_readable(ms, text):
    assert duration(ms) == text


def test_text_from_outside_cannot_steer_the_terminal():
    assert plain("a\x1b[31mred\nb\x07") == "a\\x1b[31mred ⏎ b\\x07"


def test_a_table_has_no_trailing_blanks():
    assert table(("A", "B"), [("x", ""), ("long", "y")]) == ["A     B", "x", "long  y"]
