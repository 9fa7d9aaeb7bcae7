"""How far a long command is: on standard error, never among what a machine reads."""

from __future__ import annotations

import pytest

from holdfast.cli.progress import LINE_EVERY, Ticker


def test_elsewhere_than_on_a_terminal_there_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker(quiet=False) as ticker:
        for number in range(1000, 2 * LINE_EVERY + 1, 1000):
            ticker.tell(f"{number:,} items", number)
    assert capsys.readouterr() == ("", "  10,000 items\n  20,000 items\n")


def test_on_a_terminal_a_line_changes_and_goes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Ticker(quiet=False) as ticker:
        ticker.tell("1 item", 1)
        ticker.tell("2 items", 2)
    assert capsys.readouterr().err.splitlines()[-1].endswith("\033[K")


@pytest.mark.parametrize("redraws", [True, False])
def test_a_terminal_gets_no_characters_that_it_acts_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, redraws: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: redraws)
    with Ticker(quiet=False) as ticker:
        ticker.tell("10,000 of \x1b[2J\u202e", LINE_EVERY)
    err = capsys.readouterr().err
    assert "10,000 of \\x1b[2J\\u202e" in err and not {"\x1b[2J", "\u202e"} & {err[n : n + 4] for n in range(len(err))}


def test_machines_hear_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker(quiet=True) as ticker:
        ticker.tell("10,000 items", LINE_EVERY)
    assert capsys.readouterr() == ("", "")
