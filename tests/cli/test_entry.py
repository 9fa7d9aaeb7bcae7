"""The root of the command line: exit status of whatever happens inside a command."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from holdfast.cli.entry import EXIT_INTERRUPTED, CommandLine
from holdfast.cli.run import TEXTS, _reporter
from holdfast.errors import InvalidInput


@click.group("sample", cls=CommandLine)
def sample() -> None:
    """A command line of its own."""


@sample.command()
def interrupted() -> None:
    """Ctrl-C."""
    raise KeyboardInterrupt


@sample.command()
def broken() -> None:
    """A bug."""
    raise ZeroDivisionError


@sample.command()
def refused() -> None:
    """One of our own errors."""
    raise InvalidInput("no \x1b[31mcolours\nhere")


def test_ctrl_c_is_no_error_of_ours():
    result = CliRunner().invoke(sample, ["interrupted"])
    assert result.exit_code == EXIT_INTERRUPTED
    assert "Traceback" not in result.output


def test_a_bug_shows_itself():
    assert isinstance(CliRunner().invoke(sample, ["broken"]).exception, ZeroDivisionError)


def test_an_error_cannot_steer_the_terminal():
    result = CliRunner().invoke(sample, ["refused"])
    assert result.exit_code == 1
    assert result.stderr == "holdfast: no \\x1b[31mcolours ⏎ here\n"


def test_who_calls_it_from_code_gets_the_error_itself():
    with pytest.raises(InvalidInput):
        sample.main(["refused"], standalone_mode=False)


@pytest.mark.parametrize("event", TEXTS)
def test_every_event_of_a_worker_has_a_text(event, capsys):
    fields = {"pid": 1, "place": 2, "workers": 3, "home": "memory://", "reason": "exit status 1", "url": "http://x"}
    fields |= {"files": ["shop.py"], "error": "no module", "workflow": "checkout", "id": "order-17"}
    fields |= {"replayed": 3, "more": False, "would_block": 1}
    _reporter(for_machines=False)(event, **fields, workflows=["checkout", "parcel"], restart_in_seconds=0.1)
    told = capsys.readouterr().err
    assert told.startswith("holdfast: ")
    assert "{" not in told
