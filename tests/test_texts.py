"""What leaves as text: nothing that a terminal acts on, and no password of a URL."""

from __future__ import annotations

import json
import sys

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.backends.aws import parse_address
from holdfast.cli.entry import CommandLine
from holdfast.cli.output import as_json, echo, plain, table
from holdfast.opening import open_home, open_shared
from holdfast.texts import frames_of, printable, printable_json, printable_lines, told_place, told_url
from holdfast.workflows.record import check_tags

HOSTILE = "a\x1b[31mred\x07\x00\x7f\x85\x9b31m\u200b\u202e\u2066\u2028\r\ufeff\U000e0001z"
TERMINALS = st.text(st.characters(codec="utf-8"))


@given(TERMINALS)
def test_no_character_that_cannot_be_printed_is_left(text):
    assert printable(text).isprintable()
    assert all(line.isprintable() for line in printable_lines(text).split("\n"))
    shown = as_json({"value": text}, exact=True)
    assert shown.isprintable()
    assert json.loads(shown) == {"value": text}


def test_every_control_c1_and_bidirectional_character_is_escaped():
    dangerous = [
        *range(0x20),
        *range(0x7F, 0xA0),
        0x061C,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x2070),
    ]
    for code in dangerous:
        assert chr(code) not in printable(chr(code)) + printable_json(f'"{chr(code)}"')


def test_cells_and_lines_are_escaped_whoever_made_them(capsys):
    echo("\n".join(table(("A", "B"), [(HOSTILE, HOSTILE)])))
    echo(f"one {HOSTILE}\ntwo", err=True)
    out, err = capsys.readouterr()
    assert all(line.isprintable() for line in (*out.split("\n"), *err.split("\n")))
    assert err.split("\n")[1] == "two"


def test_on_a_terminal_our_own_colours_are_left(monkeypatch, capsys):
    monkeypatch.setattr("holdfast.cli.output.colours_wanted", lambda: True)
    echo("\x1b[31mFAILED\x1b[0m \x1b[2J\x1b]0;title\x07")
    assert capsys.readouterr().out.endswith(
        "\x1b[2J\x1b]0;title\x07".replace("\x1b", "\\x1b").replace("\x07", "\\x07") + "\n"
    )


def test_a_cell_is_one_line():
    assert table(("A", "B"), [("a\nERROR forged", "b\nc")])[1:] == ["a\\x0aERROR forged  b\\x0ac"]


def test_wrong_usage_and_tracebacks_are_escaped_too(capsys):
    sample = CommandLine("sample")
    told = f"{HOSTILE} redis://ann:hunter2@cache"

    @sample.command("refused")
    @click.option("--debug", is_flag=True)
    def refused(*, debug: bool) -> None:
        assert debug
        raise hf.InvalidInput(told)

    @sample.command("misused")
    def misused() -> None:
        raise click.UsageError(told)

    for arguments in ([told], ["misused"]):
        result = CliRunner().invoke(sample, arguments)
        assert all(line.isprintable() for line in result.stderr.split("\n"))
        assert "redis://ann:***@cache" in result.stderr
    with pytest.raises(hf.InvalidInput) as raised:
        sample.main(["refused", "--debug"], standalone_mode=False)
    CliRunner().invoke(sample, ["refused", "--debug"])
    sys.excepthook(hf.InvalidInput, raised.value, None)
    err = capsys.readouterr().err
    assert all(line.isprintable() for line in err.split("\n"))
    assert "redis://ann:***@cache" in err


@pytest.mark.parametrize("tags", [{"a": HOSTILE}, {HOSTILE: "a"}, {"a": "\u202e"}, {"a": "\n"}, {"a": "\x85"}])
def test_tags_that_cannot_be_printed_are_refused(tags):
    with pytest.raises(hf.InvalidInput, match="cannot be printed") as raised:
        check_tags(tags)
    assert str(raised.value).isprintable()


URLS = [
    ("redis://ann:hunter2@cache:6379/0", "redis://ann:***@cache:6379/0"),
    ("redis://:hunter2@cache:port/0", "redis://:***@cache:port/0"),
    ("redis://:hun/t?e#r2@hunter2@cache", "redis://:***@cache"),
    ("x redis://:hunter2@cache y", "x redis://:***@cache y"),
    (
        "aws://shop?endpoint=http://ann:hunter2@127.0.0.1:8000&region=x",
        "aws://shop?endpoint=http://ann:***@127.0.0.1:8000&region=x",
    ),
    ("redis://cache?password=hunter2&db=1", "redis://cache?password=***&db=1"),
    ("aws://shop?session_token=hunter2", "aws://shop?session_token=***"),
    ("sqlite:////home/a:b/shop.db", "sqlite:////home/a:b/shop.db"),
    ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
]


@pytest.mark.parametrize(("url", "told"), URLS)
def test_a_url_is_told_without_its_password(url, told):
    assert told_url(url) == told
    assert told_url(plain(url)) == plain(url) == plain(told)
    assert json.loads(as_json(url)) == told


@pytest.mark.parametrize(
    "url", ["redis://:hunter2@cache:port/0", "redis://ann:hunter2@[cache/0", "rediss:/:hunter2@c", "x://u:hunter2@h"]
)
def test_a_cache_that_cannot_be_opened_is_named_without_its_password(url):
    with pytest.raises(hf.ConfigurationError) as raised:
        open_shared(url, "shop")
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "url", ["postgres://ann:hunter2@db/shop", "aws://ann:hunter2@x", "aws://shop?endpoint=http://a:hunter2@h&x=1"]
)
async def test_a_home_that_cannot_be_opened_is_named_without_its_password(url):
    with pytest.raises(hf.ConfigurationError) as raised:
        await open_home(url)
    assert "hunter2" not in str(raised.value)
    if url.startswith("aws"):
        with pytest.raises(hf.ConfigurationError, match=r"\*\*\*"):
            parse_address(url)


def test_frames_name_types_and_places_and_say_nothing():
    def fails(card: str) -> None:
        try:
            raise KeyError(card)
        except KeyError as error:
            raise ValueError(f"bad {card}") from error

    card = f"41{11}\nERROR"
    with pytest.raises(ValueError, match="bad") as raised:
        fails(card)
    told = frames_of(raised.value)
    assert "ValueError at" in told and "after KeyError at" in told and "in fails" in told
    assert "4111" not in told
    assert all(line.isprintable() for line in told.split("\n"))


@pytest.mark.parametrize("text", ["a:/" * 300_000, "a:/:" * 250_000, "a" * 1_000_000, "?a" * 500_000])
def test_a_long_text_is_told_at_once(text):
    assert told_url(text) == text, "a pattern that goes back for each character takes hours"


def test_a_place_in_code_is_told_without_where_this_machine_keeps_it(tmp_path, monkeypatch):
    imported, here = tmp_path / "imported", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", "/", str(tmp_path), str(imported), *sys.path])
    assert told_place(str(imported / "shop" / "steps.py"), 3) == "shop/steps.py:3", "the nearest folder counts"
    assert told_place(str(here / "job.py"), 3) == "job.py:3"
    assert told_place("/elsewhere/secret/job.py", 3) == "job.py:3"
    assert told_place("<stdin>", 3) == "<stdin>:3"
    assert told_place("/elsewhere/caf\udce9.py", 3) == r"caf\udce9.py:3", "what is recorded is UTF-8"
    here.rmdir()
    assert told_place(str(here / "job.py"), 3) in {"job.py:3", "here/job.py:3"}, "the current folder may be gone"
