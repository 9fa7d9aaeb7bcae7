"""What every command has in common: help with examples, JSON, errors of one line, exit status, where the home is."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner
from tests.cli.every import every_command

from holdfast.cli import main

COMMANDS = dict(every_command())


def test_all_commands_are_there() -> None:
    assert sorted(COMMANDS) == [
        "actor call",
        "actor delete",
        "actor discard",
        "actor ls",
        "actor park",
        "actor request",
        "actor resume",
        "actor send",
        "actor show",
        "actor unpark",
        "ask",
        "asl cost",
        "asl graph",
        "asl lint",
        "asl run",
        "asl show",
        "asl test",
        "asl to-python",
        "audit",
        "aws clean-up",
        "aws create-table",
        "aws settings",
        "aws verify",
        "backup",
        "bulk answer",
        "bulk cancel",
        "bulk delete",
        "bulk fork",
        "bulk move",
        "bulk pause",
        "bulk resume",
        "bulk retry",
        "bulk signal",
        "bulk terminate",
        "callback answer",
        "callback complete",
        "callback fail",
        "callback heartbeat",
        "cancel",
        "chaos ls",
        "chaos run",
        "cost actor",
        "cost tables",
        "cost workflow",
        "dashboard",
        "debug",
        "delete",
        "demo",
        "dlq discard",
        "dlq ls",
        "dlq redrive",
        "dlq show",
        "doctor",
        "export",
        "fork",
        "import",
        "infra template",
        "init",
        "leases",
        "limit ls",
        "limit reset",
        "limit set",
        "limit show",
        "ls",
        "move",
        "outbox discard",
        "outbox ls",
        "outbox resend",
        "overview",
        "pause",
        "prune",
        "publish",
        "query",
        "queue ls",
        "queue pause",
        "queue purge",
        "queue reset",
        "queue resume",
        "queue set",
        "queue show",
        "restore",
        "result",
        "resume",
        "retry",
        "run",
        "schedules",
        "seal",
        "serve",
        "show",
        "signal",
        "start",
        "stream prune",
        "terminate",
        "timers ls",
        "trace",
        "workers",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_of_itself(command, shop):
    result = shop.invoke(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Examples:\n" in result.output
    assert f"holdfast {command}" in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_answers_in_json_and_can_show_tracebacks(command):
    options = {option for parameter in COMMANDS[command].params for option in parameter.opts}
    assert {"--json", "--debug"} <= options
    no_app = {"run", "demo", "init", "chaos ls", "chaos run", "cost tables", "infra template"}
    no_app |= {each for each in COMMANDS if each.startswith("asl ")}
    if command not in no_app:
        assert {"--app", "--home"} <= options


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command):
    for parameter in COMMANDS[command].params:
        if isinstance(parameter, click.Option) and parameter.name != "log_level":
            assert parameter.help, parameter.name


def test_without_a_command_help_is_shown(shop):
    result = shop.invoke()
    assert "holdfast demo" in result.output
    assert "Commands:" in result.output


def test_the_version_is_told(shop):
    result = shop.invoke("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("holdfast")


# ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_error_is_one_line_on_standard_error(shop):
    shop.invoke("start", "checkout", '["visa"]', "--id", "a")
    result = shop.invoke("show", "checkout", "nobody")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "holdfast: there is no execution 'nobody' of workflow 'checkout'\n"


def test_an_error_in_json_has_a_stable_code(shop):
    shop.invoke("start", "checkout", '["visa"]', "--id", "a")
    assert shop.refusal("show", "checkout", "nobody")["code"] == "not_found"


def test_debug_shows_the_traceback(shop):
    shop.invoke("start", "checkout", '["visa"]')
    result = shop.invoke("show", "checkout", "nobody", "--debug")
    assert type(result.exception).__name__ == "NotFound"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "--nonsense"),
        ("ls", "--limit", "0"),
        ("ls", "--status", "FINE"),
        ("ls", "--since", "yesterday"),
        ("ls", "--tag", "customer"),
        ("show", "checkout"),
        ("signal", "checkout", "a", "go", "{not json}"),
        ("signal", "checkout", "a", "go", "NaN"),
        ("start", "checkout", "@nowhere.json"),
        ("result", "checkout", "a", "--timeout", "soon"),
        ("actor", "ls", "--status", "FINE"),
        ("actor", "call", "Cart", "u1"),
        ("actor", "call", "Cart", "u1", "add", "--timeout", "soon"),
        ("dlq", "redrive"),
        ("dlq", "redrive", "one", "--all"),
        ("dlq", "redrive", "one", "two", "--args", "[]"),
        ("dlq", "discard"),
        ("dlq", "discard", "one", "--actor", "Cart"),
        ("nothing",),
        ("init", "shop.py/project"),
        ("demo", "--keep", "shop.py/demo"),
        ("serve", "--tokens", "bytes"),
        ("start", "checkout", "@bytes"),
        ("start", "checkout", "@nowhere"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments, shop):
    shop.path("bytes").write_bytes(b"\xff")
    result = shop.invoke(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    in_json = shop.invoke(*arguments, "--json")
    assert in_json.exit_code == 2
    assert json.loads(in_json.stderr)["code"] == "usage"


def test_nothing_is_coloured_without_a_terminal(shop, worker):
    shop.invoke("start", "checkout", '["visa"]', "--id", "a", "--wait")
    for arguments in (("ls",), ("show", "checkout", "a"), ("doctor",)):
        assert "\x1b" not in shop.invoke(*arguments).output


# ── Where the home is ───────────────────────────────────────────────────────────────────────────────────────────────


def test_without_app_and_home_the_message_says_how_to_name_one(shop):
    result = shop.invoke("ls", app=None)
    assert result.exit_code == 2
    for way in ("--app MODULE:APP", "HOLDFAST_APP", "--home URL", "HOLDFAST_URL"):
        assert way in result.stderr


def test_a_command_that_runs_code_asks_for_the_app(shop):
    result = shop.invoke("start", "checkout", "--home", shop.home, app=None)
    assert result.exit_code == 2
    assert "--app" in result.stderr


def test_a_home_is_enough_to_look(shop):
    shop.invoke("start", "checkout", '["visa"]', "--id", "a")
    assert "a" in shop.invoke("ls", "--home", shop.home, app=None).output


def test_a_home_given_wins_over_the_apps(shop):
    shop.invoke("start", "checkout", '["visa"]', "--id", "elsewhere", "--home", "sqlite:///other.db")
    assert shop.path("other.db").exists()
    assert not shop.path("shop.db").exists()
    assert shop.json("ls", "--home", "sqlite:///other.db")["executions"][0]["id"] == "elsewhere"


def test_the_home_may_come_from_the_environment(shop, monkeypatch):
    shop.invoke("start", "checkout", '["visa"]', "--id", "a")
    monkeypatch.setenv("HOLDFAST_URL", shop.home)
    from click.testing import CliRunner

    assert "checkout" in CliRunner().invoke(main, ["ls"], env={"HOLDFAST_APP": None}).output


def test_looking_does_not_create_a_home(shop):
    assert "no database" in shop.refusal("ls")["message"]
    assert not shop.path("shop.db").exists()


def test_the_memory_of_another_process_cannot_be_looked_into(shop):
    assert "memory" in shop.refusal("ls", "--home", "memory://")["message"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("shop", "MODULE:APP"),
        ("shop.py:app", "shop:app"),
        ("shopp:app", "no module 'shopp'"),
        ("shop:apple", "shop:app"),
        ("shop:charge", "is a Step, not a holdfast.App; it has: shop:app"),
    ],
)
@pytest.mark.parametrize("command", [("ls", "--app"), ("run",)], ids=" ".join)
def test_a_wrong_name_of_an_app_is_wrong_usage(name, told, command, shop):
    result = shop.invoke(*command, name, "--json")
    assert result.exit_code == 2
    answer = json.loads(result.stderr)
    assert answer["code"] == "usage"
    assert told in answer["message"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("broken:app", "ZeroDivisionError: division by zero at"),
        ("needy:app", "No module named 'nowhere'"),
        ("garbled:app", "SyntaxError"),
    ],
)
def test_an_app_that_cannot_be_imported_is_an_error(name, told, shop):
    shop.path("broken.py").write_text("x = 1\ny = 1 / 0\n")
    shop.path("needy.py").write_text("import nowhere\n")
    shop.path("garbled.py").write_text("def :\n")
    answer = shop.refusal("ls", "--app", name)
    assert answer["code"] == "configuration"
    assert told in answer["message"]


def test_the_place_of_a_broken_import_is_told(shop):
    shop.path("broken.py").write_text("x = 1\ny = 1 / 0\n")
    assert "broken.py:2" in shop.refusal("ls", "--app", "broken:app")["message"]


def test_a_worker_that_would_have_nothing_to_do_is_refused(shop):
    shop.path("bare.py").write_text("import holdfast as hf\napp = hf.App('bare', home='sqlite:///bare.db')\n")
    answer = shop.refusal("run", "bare:app")
    assert answer["code"] == "configuration"
    assert "nothing is declared on it" in answer["message"]
    assert not shop.path("bare.db").exists()


@pytest.mark.parametrize("command", ["serve", "dashboard", "doctor"])
def test_an_app_in_the_wrong_place_is_told_the_right_one(command: str) -> None:
    told = CliRunner().invoke(main, [command, "shop:app"])
    assert told.exit_code == 2
    assert f"(shop:app). The app goes behind -a: holdfast {command} -a shop:app" in told.output


@pytest.mark.parametrize("arguments", [["serve", "shop.py"], ["infra", "template", "shop:app"], ["init", "a", "b:c"]])
def test_other_arguments_are_told_no_place_of_an_app(arguments: list[str]) -> None:
    assert "The app goes behind" not in CliRunner().invoke(main, arguments).output
