"""The plumbing between the bench and its peers. No peer is installed here, and none is run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks import environment
from benchmarks.__main__ import _peers
from benchmarks.cases import ALL
from benchmarks.emulator import child_environment, dynamodb_local
from benchmarks.environment import DBOS, DURABLE, RESTATE, SYSTEMS, PeerMissingError, interpreter
from benchmarks.peers.measure_restate import Caller, Callers, Numbers
from benchmarks.plan import IMPORTED, Case, Dbos, Durable, Moto, Ours, Powertools, Restate, Row
from benchmarks.report import rows_of, table
from benchmarks.rounds import Measured, Rounds, Samples, runs_of, system_of

# ── The cases ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_function_that_a_case_asks_of_a_peer_is_there() -> None:
    asked = {(system_of(peer).script, peer.function) for case in ALL for peer in case.peers}
    for script, function in asked:
        assert function == IMPORTED or f"def bench_{function}(" in script.read_text(encoding="utf-8"), function
    assert {script for script, _ in asked} == {system.script for system in SYSTEMS}


def test_every_handler_that_is_called_at_restate_is_there() -> None:
    called = set(re.findall(r'"/Bench/(\w+)"|/Counter/[^/"]+/(\w+)', RESTATE.script.read_text(encoding="utf-8")))
    names = {service or counter for service, counter in called}
    assert {"one_step", "add", "hit"} <= names
    handlers = RESTATE.script.with_name("restate_service.py").read_text(encoding="utf-8")
    for name in names:
        assert f".handler()\nasync def {name}(" in handlers


def test_dbos_runs_once_per_journal_and_way_and_in_the_default_journal_in_the_first_round_only() -> None:
    peer = Dbos("calls", {"count": 3}, variants={"one": {"mode": 1}, "two": {"mode": 2}}, default_journal={"count": 2})
    first = [
        ("DBOS, default journal", "one", {"count": 2, "wal": False, "mode": 1}),
        ("DBOS, default journal", "two", {"count": 2, "wal": False, "mode": 2}),
        ("DBOS, WAL", "one", {"count": 3, "wal": True, "mode": 1}),
        ("DBOS, WAL", "two", {"count": 3, "wal": True, "mode": 2}),
    ]
    assert list(runs_of(peer, 1)) == first
    assert list(runs_of(peer, 2)) == first[2:]
    assert [name for name, _, _ in runs_of(Dbos("calls", only_wal=True), 1)] == ["DBOS, WAL"]


def test_a_later_round_repeats_the_ways_that_were_the_best_of_a_row_or_near_it() -> None:
    rows = (
        Row("sent", "1/s", "higher", "sent"),
        Row("took", "ms", "lower", "took"),
        Row("ours alone", "MB", "lower", "mb"),
    )
    samples = Samples()
    assert samples.is_near_best("never run", rows)
    samples.add({"sent": 100.0, "took": 9.0}, {}, "sends fast")
    samples.add({"sent": 80.0, "took": 9.0}, {}, "sends nearly as fast")
    samples.add({"sent": 10.0, "took": 3.0}, {}, "is soon there")
    samples.add({"sent": 70.0, "took": 4.0}, {}, "is the best in nothing")
    ways = ("sends fast", "sends nearly as fast", "is soon there", "is the best in nothing", "failed")
    assert [way for way in ways if not samples.is_near_best(way, rows)] == ["is the best in nothing"]


def test_restate_runs_once_per_web_server_and_is_imported_once() -> None:
    assert list(runs_of(Restate("calls", {"count": 3}), 1)) == [
        ("Restate", "hypercorn", {"count": 3, "server": "hypercorn"}),
        ("Restate", "granian", {"count": 3, "server": "granian"}),
    ]
    assert len(list(runs_of(Restate(IMPORTED), 1))) == 1


def test_what_aws_offers_and_what_plays_it_run_once_as_they_are_asked() -> None:
    asked = {"store": "memory", "times": 3}
    assert list(runs_of(Durable("executions", asked), 1)) == [("AWS durable SDK", "", asked)]
    assert list(runs_of(Powertools("idempotent", {"count": 3}), 2)) == [("Powertools", "", {"count": 3})]
    assert list(runs_of(Moto("items", {"count": 3}), 1)) == [("Moto", "", {"count": 3})]


# ── DynamoDB Local ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_cases_that_need_the_emulator_get_its_address_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def answer(command: list[str], _folder: Path) -> dict[str, Any]:
        asked.append(json.loads(command[-1]))
        return {"values": {"ms": 1}, "notes": {}}

    monkeypatch.setattr("benchmarks.rounds._answer", answer)
    run = Rounds(tmp_path, {DURABLE: "python"}, endpoint="http://127.0.0.1:1")
    for emulator in (True, False):
        case = Case("case", "group", (Ours("ours"),), (), (Durable("theirs"),), rounds=1, emulator=emulator)
        assert run.measure(case).failures == []
    assert [each.get("endpoint") for each in asked] == [run.endpoint, run.endpoint, None, None]


def test_without_java_the_bench_says_so_in_one_line_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.backends.aws.local.missing", lambda: "Java is not installed (Debian: ...)")
    monkeypatch.setattr("tests.backends.aws.local.DynamoDBLocal", None)
    with dynamodb_local([Case("case", "group", (), (), emulator=True)]) as endpoint:
        assert endpoint is None
    with dynamodb_local([Case("case", "group", (), ())]) as endpoint:
        assert endpoint is None
    told = capsys.readouterr().err.splitlines()
    assert told == ["the cases on DynamoDB Local are left out: Java is not installed (Debian: ...)"]


def test_nothing_of_the_users_account_reaches_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    users = {"AWS_PROFILE": "mine", "AWS_ACCESS_KEY_ID": "mine", "AWS_ENDPOINT_URL": "mine", "HOLDFAST_URL": "mine"}
    for name, value in users.items():
        monkeypatch.setenv(name, value)
    given = child_environment()
    assert "mine" not in {given.get(name) for name in users}
    assert given["AWS_ACCESS_KEY_ID"] == "test"
    assert "PATH" in given


# ── Installing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_npm_the_bench_says_so_in_one_line_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "PEERS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    asks_restate = Case("case", "group", (), (), (Restate("calls"),))
    assert _peers([asks_restate]) == {}
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "left out" in line] == [
        "Restate cannot be installed, so it is left out: its server comes from npm, and there is no npm here"
    ]


def test_a_peer_that_no_case_asks_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = []
    monkeypatch.setattr("benchmarks.__main__.interpreter", lambda system: installed.append(system) or "python")
    assert _peers([Case("case", "group", (), (), (Restate("calls"),))]) == {RESTATE: "python"}
    assert installed == [RESTATE]


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (
            "WARNING: mirror\nERROR: No matching distribution found for x\n",
            "ERROR: No matching distribution found for x",
        ),
        (
            "npm warn config\nnpm error code E404\nnpm error 404 Not Found: a\nnpm error A log is in b\n",
            "code E404 404 Not Found: a",
        ),
    ],
)
def test_why_an_installation_failed_is_said_in_one_line(
    stderr: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any, **__: Any) -> Any:
        raise subprocess.CalledProcessError(1, "install", stderr=stderr)

    monkeypatch.setattr(environment, "PEERS", tmp_path)
    monkeypatch.setattr(environment.subprocess, "run", run)
    with pytest.raises(PeerMissingError) as failure:
        interpreter(DBOS)
    assert str(failure.value) == reason


def test_what_is_installed_is_not_installed_again_unless_the_versions_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, ...]] = []

    def run(*command: str) -> None:
        ran.append(command)
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()

    python = tmp_path / "restate" / "bin" / "python"
    monkeypatch.setattr(environment, "PEERS", tmp_path)
    monkeypatch.setattr(environment, "_run", run)
    monkeypatch.setattr(environment.shutil, "which", lambda program: program)
    monkeypatch.setattr(environment.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(environment.sys, "platform", "linux")
    assert interpreter(RESTATE) == str(python)
    assert ran[-1][:2] == ("npm", "install")
    assert "--ignore-scripts" in ran[-1]
    assert ran[-1][-1] == "@restatedev/restate-server-linux-x64@1.7.12"
    count = len(ran)
    assert interpreter(RESTATE) == str(python)
    assert len(ran) == count
    (tmp_path / "restate" / ".installed").write_text("an older version", encoding="utf-8")
    interpreter(RESTATE)
    assert len(ran) == 2 * count


# ── Reporting ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_ratio_is_to_the_best_way_of_the_best_peer_and_each_peer_has_a_column() -> None:
    row = Row("calls", "calls/s", "higher", "calls_s")
    late = Row("late", "ms", "lower", "late_ms", peer_metric="other_ms")
    nothing = Row("of ours alone", "ms", "lower", "late_ms", peer_metric="")
    measured = Measured(Case("case", "group", (Ours("calls"),), (row, late, nothing)))
    measured.ours.add({"calls_s": 1_000.0, "late_ms": [1.0, 2.0, 3.0]}, {})
    for name, way, calls, ms in (("DBOS, WAL", "sync", 50, 3), ("Restate", "a", 100, 8), ("Restate", "b", 200, 12)):
        measured.peers.setdefault(name, Samples()).add({"calls_s": calls, "other_ms": ms}, {}, way)
    calls, late_ms, alone = rows_of(measured)
    assert calls["peers"] == {"DBOS, WAL": 50, "Restate": 200}
    assert calls["ratio"] == 5
    assert calls["settings"]["peer_ways"] == {"DBOS, WAL": "sync", "Restate": "b"}
    assert late_ms["peers"] == {"DBOS, WAL": 3, "Restate": 8}
    assert late_ms["ratio"] == 1.5
    assert (alone["peers"], alone["ratio"]) == ({}, None)
    head, _, first, *_ = table([calls, late_ms, alone]).splitlines()
    assert re.split(r"\s{2,}", head.strip()) == ["unit", "Holdfast", "min–max", "DBOS, WAL", "Restate", "ratio", "aim"]
    assert re.split(r"\s{2,}", first) == ["calls", "calls/s", "1,000", "1,000–1,000", "50", "200", "5 ×"]


# ── Calling Restate ─────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def answering(*answers: str) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that gives these answers, one per request: its port, and what it was asked."""
    asked: list[str] = []
    serving: list[asyncio.Future[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.append(task)
        with contextlib.suppress(asyncio.IncompleteReadError):  # it asks no more
            for answer in answers:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                asked.append(head.split("\r\n")[0] + " " + (await reader.readexactly(length)).decode())
                writer.write(answer.encode())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked
    await asyncio.gather(*serving)


async def test_a_caller_reads_answers_with_a_length_in_chunks_and_without_a_body() -> None:
    answers = (
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n",
        "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nwhy?",
    )
    async with answering(*answers) as (port, asked):
        call = await Caller.connect(port)
        assert await call("/Bench/one_step", 7) == 42
        assert await call("/Bench/one_step", "x") == [1, 2]
        assert await call("/Counter/1/hit/send", None) is None
        with pytest.raises(SystemExit, match="500 oh, b'why"):
            await call("/Bench/one_step", 1)
        await call.close()
    assert asked[:2] == ["POST /Bench/one_step HTTP/1.1 7", 'POST /Bench/one_step HTTP/1.1 "x"']


async def test_a_drive_makes_each_call_once_over_its_lanes(tmp_path: Path) -> None:
    async with answering(*["HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"] * 10) as (port, asked):
        callers = Callers([], port, tmp_path / "marks")
        await callers.drive(((f"/Counter/{number}/add", number) for number in range(10)), 3)
        assert len(callers.lanes) == 3
        await callers.close()
    assert sorted(asked) == [f"POST /Counter/{number}/add HTTP/1.1 {number}" for number in range(10)]


def test_numbers_are_at_least_twenty_however_short_the_time() -> None:
    numbers = Numbers(0)
    assert list(numbers) == list(range(1, 21))
    assert numbers.drawn == 20
