"""The stories end well, and say what happened; with a planted bug each of them ends badly, and says why."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.chaos.planted import PLANT, PLANTS

import holdfast
from holdfast.chaos import audit, cast, play
from holdfast.chaos.play import Outcome
from holdfast.chaos.points import CONSUMER_PREFIX, Part, Point, points_of
from holdfast.chaos.stories import STORIES
from holdfast.cli import main
from holdfast.crew.ledger import Entry
from holdfast.errors import ConfigurationError
from holdfast.items import Delete, Item, Put, Update

ROOT = Path(__file__).parents[2]
SOURCES = Path(holdfast.__file__).parents[1]
NAMES = [story.name for story in STORIES]


@pytest.fixture(autouse=True)
def workers_find_the_sources(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCES), str(ROOT), os.environ.get("PYTHONPATH", "")]))


def run(name: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit status of a story, and what it answered."""
    result = CliRunner().invoke(main, ["chaos", "run", name, "--json", *options])
    assert result.stdout, result.output + repr(result.exception)
    told = json.loads(result.stdout)
    (story,) = told["stories"]
    assert story["ok"] is told["ok"] is (result.exit_code == 0)
    return result.exit_code, story


# ── Whole stories ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_ends_well_and_its_fault_did_happen(story):
    status, told = run(story.name)
    assert status == 0, told
    assert told["problems"] == []
    assert len(told["faults"]) >= story.least_faults
    assert told["folder"] is None
    assert told["charges_accepted"] == told["orders"] >= 1
    assert told["charges_attempted"] == told["charges_accepted"] + told["repeats_recognised"]


@pytest.mark.process
@pytest.mark.slow
def test_people_are_told_what_happens_and_may_keep_the_files():
    result = CliRunner().invoke(main, ["chaos", "run", "crash-between-effect-and-mark", "--seed", "2", "--keep"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("crash-between-effect-and-mark: A worker dies")
    assert any("kill -9: worker A" in line and "charged and not noted it" in line for line in lines)
    assert any("under 1 key, and accepts 1" in line for line in lines)
    assert lines[-2].startswith("  ok, ") and lines[-2].endswith(" s, seed 2")
    (folder,) = (Path(line.removeprefix("  the files are in ")) for line in lines if "the files are in" in line)
    try:
        assert folder.stat().st_mode & 0o077 == 0
        assert {"shop.db", "ledger.jsonl", "worker-A.log"} <= {path.name for path in folder.iterdir()}
    finally:
        shutil.rmtree(folder)


# ── With a planted bug ──────────────────────────────────────────────────────────────────────────────────────────────

CAUGHT = [
    # story, planted bug, what the story says
    ("stuck-claim", "spared", "nothing happened to worker A"),
    ("stuck-claim", "the_dead_live", "had not ended"),
    ("stuck-claim", "the_living_are_dead", "taken from the living"),
    ("crash-between-claim-and-effect", "spared", "nothing happened to worker A"),
    ("crash-between-effect-and-mark", "spared", "nothing happened to worker A"),
    ("crash-between-effect-and-mark", "another_key_each_time", "was charged under 2 different keys"),
    ("crash-between-publish-and-mark", "spared", "nothing happened to worker A"),
    ("crash-between-publish-and-mark", "mark_first", "was charged []"),
    ("duplicate-delivery", "forgetful", "into the books"),
    ("redrive-after-a-manual-fix", "another_key_each_time", "was charged under 2 different keys"),
    ("poison-message", "uncounted", "and was not found"),
    ("zombie-after-a-pause", "spared", "nothing happened to worker A"),
    ("zombie-after-a-pause", "unfenced", "the old one could still write"),
]


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.setattr(cast, "CODE", "tests.chaos.planted:app")

    def plant(name: str) -> None:
        monkeypatch.setenv(PLANT, name)
        if name == "the_dead_live":
            monkeypatch.setattr(play, "STORY_SECONDS", 5.0)  # nobody would take over before the leases lapse
        if name == "mark_first":
            monkeypatch.setattr(play, "STORY_SECONDS", 8.0)  # what is lost never comes

    return plant


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("name", "plant", "problem"), CAUGHT, ids=[f"{each[0]}-{each[1]}" for each in CAUGHT])
def test_a_planted_bug_is_found(name, plant, problem, planted):
    planted(plant)
    status, told = run(name)
    shutil.rmtree(told["folder"])
    assert status == 1
    assert any(problem in each for each in told["problems"]), told


def test_every_planted_bug_is_used_and_every_story_has_one():
    assert {plant for _, plant, _ in CAUGHT} == PLANTS.keys()
    assert {name for name, _, _ in CAUGHT} == set(NAMES)


# ── The parts ───────────────────────────────────────────────────────────────────────────────────────────────────────

CONSUMER = f"{CONSUMER_PREFIX}bill#order-1"
OUTBOX = "out#chaos"
RING = Update(partition=CONSUMER, due_at=1, add_revision=1)
MESSAGE = "i#1#a"


@pytest.mark.parametrize(
    ("writes", "points"),
    [
        ([Update(partition=CONSUMER, owner="1-a", lease_until=9, add_epoch=1)], [(Point.CLAIM, CONSUMER, 1)]),
        (
            [Put(Item(CONSUMER, MESSAGE)), Put(Item(CONSUMER, owner="1-a", lease_until=9, epoch=1))],
            [(Point.DELIVERY, CONSUMER, 1), (Point.CLAIM, CONSUMER, 1)],
        ),
        ([Update(partition="actor#Books#shop", owner="1-a", lease_until=9, add_epoch=1)], []),
        ([Update(partition=CONSUMER, owner=None, lease_until=None)], []),
        ([Put(Item(CONSUMER, MESSAGE)), Put(Item(CONSUMER, "i#2#a")), RING], [(Point.DELIVERY, CONSUMER, 2)]),
        ([Put(Item("actor#Books#shop", MESSAGE)), RING], []),
        ([Update(partition=CONSUMER, body=b"{}"), Delete(CONSUMER, MESSAGE)], [(Point.COMMIT, CONSUMER, 1)]),
        ([Update(partition=CONSUMER, body=b"{}"), Put(Item(CONSUMER, "p#1")), Delete(CONSUMER, MESSAGE)], []),
        ([Update(partition=OUTBOX), Delete(OUTBOX, "o#1#a"), Delete(OUTBOX, "o#2#a")], [(Point.MARK, OUTBOX, 2)]),
    ],
)
def test_points_are_told_apart_by_what_is_written(writes, points):
    assert points_of(writes) == points


ONE_CHARGE = [Entry(at=1, what="accepted", order="o1", cents=5, key="k1")]


@pytest.mark.parametrize(
    ("ledger", "books", "found"),
    [
        (ONE_CHARGE, {"o1": 1}, []),
        (ONE_CHARGE, {}, ["o1: it was entered into the books 0 times, not 1"]),
        (ONE_CHARGE, {"o1": 2}, ["o1: it was entered into the books 2 times, not 1"]),
        (ONE_CHARGE, {"o1": 1, "o2": 1}, ["o2: it was entered into the books 1 times, not 0"]),
        ([], {"o1": 1}, ["o1: its charge of 5 cents was to be kept, but it was charged [] and refunded [] cents"]),
    ],
)
def test_the_audit_finds_what_does_not_agree(ledger, books, found):
    assert list(audit.problems({"o1": 5}, ledger, books)) == found


@pytest.mark.process
async def test_a_story_without_a_fault_has_failed(tmp_path):
    async def peace(stage: Any) -> None:
        await stage.worker()
        await stage.publish(1)

    outcome = await play.play(play.Story(name="dull", about="", play=peace), 1, tmp_path, lambda _text: None)
    assert outcome.charges_accepted == outcome.orders == 1
    assert outcome.problems == ["0 of 1 faults were seen to happen: this run proves nothing"]
    assert not outcome.ok


async def test_a_story_that_hangs_has_failed(tmp_path, monkeypatch):
    async def hang(stage: Any) -> None:
        stage.fault("the clock stands still")
        await asyncio.Event().wait()

    monkeypatch.setattr(play, "STORY_SECONDS", 0.01)
    outcome = await play.play(play.Story(name="long", about="", play=hang), 1, tmp_path, lambda _text: None)
    assert outcome.problems == ["it had not ended after 0.01 s"]


@pytest.mark.process
async def test_a_worker_that_cannot_start_is_told_with_its_last_words(tmp_path):
    with pytest.raises(ConfigurationError, match=r"worker A \(process \d+\) ended early: .*nowhere"):
        await cast.at_work("A", Part(folder=str(tmp_path)), "tests.chaos.nowhere:app")


# ── The command line ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_stories_are_listed():
    listed = CliRunner().invoke(main, ["chaos", "ls"])
    assert [line.split()[0] for line in listed.output.splitlines()] == ["STORY", *NAMES]
    assert [each["story"] for each in json.loads(CliRunner().invoke(main, ["chaos", "ls", "--json"]).output)] == NAMES


def test_an_unknown_story_is_wrong_usage():
    result = CliRunner().invoke(main, ["chaos", "run", "peace"])
    assert result.exit_code == 2
    assert "'stuck-claim'" in result.stderr


@pytest.fixture
def staged(monkeypatch, tmp_path) -> list[tuple[str, int]]:
    """Stories that are only pretended to be played, the poison message badly; answers which were."""
    played: list[tuple[str, int]] = []

    async def pretend(story: Any, seed: int, _folder: Path, tell: Any) -> Outcome:
        played.append((story.name, seed))
        tell("something happens")
        problems = ["it is lost"] if story.name == "poison-message" else []
        counts = {"charges_attempted": 3, "charges_accepted": 2, "repeats_recognised": 1}
        texts = {"faults": ["a fault"], "problems": problems, "told": ["something happens"]}
        return Outcome(story=story.name, about=story.about, seconds=1.5, orders=2, **counts, **texts)

    monkeypatch.setattr(sys.modules["holdfast.cli.chaos"], "play", pretend)  # the package has a command of that name
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return played


def test_all_stories_are_played_and_one_that_fails_fails_the_run(staged, tmp_path):
    result = CliRunner().invoke(main, ["chaos", "run", "all", "--seed", "7"])
    assert result.exit_code == 1
    assert staged == [(name, 7) for name in NAMES]
    assert result.output.count("  something happens\n") == len(NAMES)
    assert "  fail: it is lost\n" in result.output
    assert [line.split() for line in result.output.splitlines()[-2:]] == [
        ["poison-message", "1", "1.5", "s", "fail"],
        ["zombie-after-a-pause", "1", "1.5", "s", "ok"],
    ]
    (kept,) = tmp_path.iterdir()
    assert f"  the files are in {kept.resolve()}\n" in result.output


def test_machines_get_everything_in_one_object(staged, tmp_path):
    result = CliRunner().invoke(main, ["chaos", "run", "stuck-claim", "--json"])
    assert result.exit_code == 0
    told = json.loads(result.output)
    assert told["ok"] is True and told["seed"] == 1
    (story,) = told["stories"]
    assert story["faults"] == ["a fault"] and story["folder"] is None
    assert list(tmp_path.iterdir()) == []
