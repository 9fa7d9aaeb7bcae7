"""The audit: what somebody changed is a row, whoever it was and however it went."""

from __future__ import annotations

import os
import pwd

import pytest
from tests.cli.every import every_command

from holdfast.cli.session import current_user


def rows(shop, *options):
    return shop.json("audit", *options)["changes"]


def test_what_the_command_line_changes_is_kept_with_who_when_and_the_outcome(shop):
    shop.invoke("start", "approval", "[1]", "--id", "a")
    assert rows(shop) == []
    shop.json("pause", "approval", "a")
    shop.json("resume", "approval", "a")
    assert shop.invoke("delete", "approval", "a").exit_code == 1
    found = rows(shop)
    assert [(row["action"], row["what"], row["outcome"]) for row in found] == [
        ("delete", "approval a", "invalid_state"),
        ("resume", "approval a", "done"),
        ("pause", "approval a", "done"),
    ]
    assert {row["who"] for row in found} == {current_user()}
    assert [row["at"] for row in found] == sorted((row["at"] for row in found), reverse=True)
    assert found[0].keys() == {"at", "who", "action", "what", "outcome"}


def test_it_is_listed_for_people_too(shop):
    shop.invoke("start", "approval", "[1]", "--id", "a")
    assert shop.invoke("audit").output == "no changes\n"
    shop.json("terminate", "approval", "a")
    lines = shop.invoke("audit").output.splitlines()
    assert lines[0].split()[0] == "WHEN" and "terminate" in lines[1] and "approval a" in lines[1]


def test_a_bulk_change_is_one_row_that_says_what_was_chosen(shop):
    shop.invoke("start", "approval", "[1]", "--id", "a")
    shop.json("bulk", "terminate", "--workflow", "approval", "--yes")
    (row,) = rows(shop)
    assert row["action"] == "bulk terminate" and "approval" in row["what"]


CHANGES = [
    # the command, what it is about
    ("cancel", "approval a"),
    ("terminate", "approval a"),
    ("pause", "approval a"),
    ("resume", "approval a"),
    ("delete", "approval a"),
    ("move", "approval a"),
    ("retry", "approval a"),
    ("retry", "approval a --now"),
    ("fork", "approval a b"),
    ("callback answer", "approval a o"),
    ("bulk cancel", "--workflow approval --yes"),
    ("bulk terminate", "--workflow approval --yes"),
    ("bulk retry", "--workflow approval --yes"),
    ("bulk delete", "--workflow approval --yes"),
    ("bulk move", "--workflow approval --yes"),
    ("bulk pause", "--workflow approval --yes"),
    ("bulk resume", "--workflow approval --yes"),
    ("bulk signal", "go --signal-id s --workflow approval --yes"),
    ("bulk answer", "o --workflow approval --yes"),
    ("bulk fork", "--suffix=-2 --workflow approval --yes"),
    ("prune", "--older-than 1d"),
    ("stream prune", "--older-than 1d"),
    ("dlq redrive", "none"),
    ("dlq discard", "none"),
    ("outbox resend", "none"),
    ("outbox discard", "none"),
    ("actor delete", "Cart none"),
    ("actor unpark", "Cart none p"),
    ("actor discard", "Cart none p"),
    ("actor resume", "Cart none"),
    ("actor park", "Cart none"),
    ("queue pause", "none"),
    ("queue resume", "none"),
    ("queue set", "none limit=2"),
    ("queue reset", "none"),
    ("queue purge", "none --yes"),
    ("limit set", "none permits=2"),
    ("limit reset", "none"),
]
NO_CHANGES = {
    "overview", "schedules", "leases", "workers", "backup", "restore", "dashboard", "trace",
    "ls", "show", "result", "actor ls", "actor show", "dlq ls", "dlq show", "outbox ls", "timers ls", "audit",
    "debug", "doctor", "start", "signal", "actor call", "actor send", "callback complete", "callback fail",
    "callback heartbeat", "query", "publish", "actor request",
    "ask", "run", "serve", "demo", "init", "export", "import", "seal", "chaos ls", "chaos run",
    "cost actor", "cost tables", "cost workflow", "infra template", "aws clean-up", "aws create-table",
    "aws settings", "aws verify", "asl lint", "asl test", "asl graph", "asl run", "asl cost", "asl show",
    "asl to-python", "queue ls", "queue show", "limit ls", "limit show",
}  # fmt: skip
"""What looks, does the work of the app as a client does, or is not about what a home holds, but about a whole home."""


@pytest.mark.parametrize(("command", "options"), CHANGES)
def test_whatever_a_command_changes_is_one_row_also_if_it_fails(shop, command, options):
    shop.invoke("start", "approval", "[1]", "--id", "a")
    result = shop.invoke(*command.split(), *options.split(), "--json")
    assert result.exit_code in {0, 1}, result.output
    (row,) = rows(shop)
    assert row["action"] == command
    about = [each for each in options.split()[:2] if each not in {"--yes", "limit=2", "permits=2"}]
    assert row["what"].startswith(" ".join(about)) or "bulk" in command or "prune" in command
    assert row["outcome"] != "begun"


def test_every_command_that_changes_is_among_them():
    assert {command for command, _ in CHANGES} == {command for command, _ in every_command()} - NO_CHANGES


def test_who_it_is_says_the_system_and_not_the_environment(monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody-else")
    monkeypatch.setenv("USER", "somebody-else")
    assert current_user().startswith(f"cli:{pwd.getpwuid(os.getuid()).pw_name}@")


@pytest.mark.parametrize("options", [("--limit", "0"), ("--since", "yesterday")])
def test_wrong_options_are_refused(shop, options):
    assert shop.invoke("audit", *options).exit_code == 2
