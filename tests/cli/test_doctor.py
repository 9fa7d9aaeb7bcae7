"""The doctor finds what is wrong, and says so by its exit status."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import Raw
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.backends.sqlite.checkup import Checkup
from holdfast.cli.checks import check_file, check_work, processes
from holdfast.cli.checks.file import _check_permissions, _check_space
from holdfast.cli.checks.finding import Group
from holdfast.cli.checks.waiting import STORM, Waiting
from holdfast.clock import SystemClock
from holdfast.commands.overview import OVERDUE_MS
from holdfast.items import Item, Put, Update
from holdfast.kernel.backlog_count import PARKED_DUE_AT
from holdfast.patterns.workers import WorkerPage, WorkerStatus
from holdfast.workflows.record import ExecutionRecord, decode_record, encode_record, partition_of
from holdfast.workflows.waits import SIGNAL, STEP, Wait, Waits


def findings(shop, *options, exit_code=0):
    result = shop.invoke("doctor", "--json", *options)
    assert result.exit_code == exit_code, result.output
    report = json.loads(result.stdout)
    assert report.keys() == {"home", "level", "findings"}
    return {each["check"]: each for each in report["findings"]}


@pytest.fixture
def started(shop):
    """A shop with one execution that nobody works on."""
    shop.json("start", "approval", "7", "--id", "a")
    return shop


def change(shop, **fields):
    """Change the head of that execution behind everybody's back."""
    with hf.App("other", home=shop.home).sync() as run:
        store = run._app.runtime().home.store
        run(store.write(Update(partition=partition_of("approval", "a"), **fields)))


def test_a_sound_home_is_ok(shop, worker):
    shop.json("start", "checkout", '["visa"]', "--wait")
    found = findings(shop)
    assert {each["level"] for each in found.values()} == {"ok"}
    assert "synchronous=FULL" in found["settings"]["told"]
    assert "1 COMPLETED" in found["executions"]["told"]
    assert "0600" in found["permissions"]["told"]
    assert "1 other processes" in found["peers"]["told"]


def test_for_people_every_line_has_its_level(shop, worker):
    shop.json("start", "checkout", '["visa"]', "--wait")
    first, *lines, last = shop.invoke("doctor").output.splitlines()
    assert first == "holdfast doctor: sqlite:///shop.db"
    assert all(line.startswith("ok ") for line in lines)
    assert last == "ok: all is well"


def test_a_file_open_to_others_is_a_warning(started):
    started.path("shop.db").chmod(0o644)
    found = findings(started)
    assert found["permissions"]["level"] == "warn"
    assert "chmod" in found["permissions"]["told"]


def test_warnings_fail_only_if_asked(started):
    started.path("shop.db").chmod(0o644)
    findings(started, exit_code=0)
    findings(started, "--strict", exit_code=1)


def test_work_without_a_worker_is_a_warning(started):
    assert findings(started)["peers"]["level"] == "warn"
    change(started, due_at=1)
    found = findings(started)["overdue"]
    assert found["level"] == "warn"
    assert "1 executions are overdue" in found["told"]


async def doctors(data, *, known=None, scan=False, **other):
    async def open_home():
        return replace(open_memory_home(data=data), **other)

    async with hf.App("other", home=open_home) as app:
        return {each.check: each for each in await check_work(app.runtime(), known, scan=scan)}


class NoScan:
    """A store in which nothing may be scanned: on AWS that reads the whole table."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        assert name != "scan", "that reads the whole table"
        return getattr(self._store, name)


async def test_where_counting_takes_reading_the_whole_table_only_what_is_due_is_read():
    data, now = MemoryData(), SystemClock().now_ms()
    home = open_memory_home(data=data)
    known = {"workflow": "approval", "version": "1", "input": Raw(b"{}"), "fingerprint": "", "secret": ""}
    for id, status, due_at, fields in (
        ("blocked", "BLOCKED", now + 50_000, {"blocked": "other code"}),
        ("parked", "BLOCKED", PARKED_DUE_AT, {"blocked": "its processes died", "parked": True}),
        ("late", "READY", 1, {}),
    ):
        record = ExecutionRecord(id=id, created_at=1, run_at=1, **known, **fields)
        head = Item(partition_of("approval", id), status=status, due_at=due_at, body=encode_record(record))
        await home.store.write(Put(head))
    found = await doctors(data, store=NoScan(home.store), census=None, inventory=None, known={"checkout"})
    assert found["blocked"].examples[0].startswith("holdfast show approval blocked")
    assert found["crashes"].examples[0].startswith("holdfast show approval parked")
    assert found["overdue"].level == found["unknown"].level == "warn"
    assert "--scan" in found["counts"].told
    assert found.keys() == {"blocked", "crashes", "unknown", "overdue", "parked", "counts"}
    assert "executions" in await doctors(data, census=None, scan=True)
    await home.doorbell.close()


async def test_where_processes_are_not_heard_of_only_their_leases_tell():
    data, now = MemoryData(), SystemClock().now_ms()
    lapsed = Item(
        partition=partition_of("approval", "a"), status="RUNNING", owner="elsewhere-1", lease_until=now - OVERDUE_MS
    )
    home = open_memory_home(data=data)
    await home.store.write(Put(replace(lapsed, due_at=1)))
    await home.doorbell.close()
    found = await doctors(data, writes_are_paid=True, reads_are_paid=True, hears_peers=False)
    assert (found["overdue"].level, found["peers"].level) == ("warn", "ok")
    assert "cannot be seen; 1 executions are unfinished" in found["peers"].told
    found = await doctors(data)
    assert (found["peers"].level, found["died"].level) == ("warn", "warn")
    assert found["died"].examples == ("process elsewhere died: it worked on approval a",)


def test_work_that_is_due_since_just_now_is_fine(started):
    assert OVERDUE_MS > 0
    assert findings(started)["overdue"]["level"] == "ok"


@pytest.mark.parametrize(("status", "check"), [("BLOCKED", "blocked"), ("COMPENSATION_FAILED", "compensation")])
def test_what_needs_a_person_is_a_warning(status, check, started):
    change(started, status=status)
    found = findings(started)[check]
    assert found["level"] == "warn"
    assert found["examples"][0].startswith("holdfast show approval a")


def block(shop, ids, *, parked):
    """Leave executions as a worker leaves those that it blocks, or parks."""
    with hf.App("other", home=shop.home).sync() as run:
        store = run._app.runtime().home.store
        for id in ids:
            shop.json("start", "approval", "7", "--id", id)
            head = run(store.get(partition_of("approval", id)))
            body = encode_record(replace(decode_record(head.body), blocked=f"the reason of {id}", parked=parked))
            due_at = PARKED_DUE_AT if parked else None
            run(store.write(Update(partition=head.partition, status="BLOCKED", due_at=due_at, body=body)))


@pytest.mark.parametrize(
    ("parked", "check", "told", "remedy"),
    [
        (
            False,
            "blocked",
            "4 executions wait for code that fits",
            "roll back, deploy code that fits, or holdfast move",
        ),
        (True, "crashes", "4 executions are parked because their processes died", "then holdfast resume each"),
    ],
)
def test_blocked_and_parked_executions_are_counted_and_named_with_what_to_do(shop, parked, check, told, remedy):
    block(shop, ("a", "b", "c", "d"), parked=parked)
    found = findings(shop)
    (other,) = {"blocked", "crashes"} - {check}
    assert (found[check]["level"], found[other]["level"], found["overdue"]["level"]) == ("warn", "ok", "ok")
    words, examples = found[check]["told"], found[check]["examples"]
    assert words.startswith(told)
    assert [each.rpartition(": ")[2] for each in examples[:-1]] == [f"the reason of {id}" for id in "dcb"]
    assert examples[-1] == "and 1 more"
    assert remedy in words
    assert "holdfast ls --status BLOCKED" in words
    findings(shop, "--strict", exit_code=1)
    rows = shop.json("ls", "--status", "BLOCKED")["executions"]
    assert {row["id"]: row["blocked"] for row in rows} == {id: f"the reason of {id}" for id in "abcd"}
    assert "the reason of d" in shop.invoke("ls", "--status", "BLOCKED").output


def test_a_workflow_without_code_is_a_warning(started):
    with hf.App("other", home=started.home).sync() as run:
        head = Item(partition=partition_of("forgotten", "a"), status="SUSPENDED", body=b"{}")
        run(run._app.runtime().home.store.write(Put(head)))
    found = findings(started)["unknown"]
    assert found["level"] == "warn"
    assert "'forgotten' (1 unfinished)" in found["told"]


def test_without_the_app_nothing_is_said_about_code(started):
    result = started.invoke("doctor", "--json", "--home", started.home, app=None)
    assert "unknown" not in {each["check"] for each in json.loads(result.stdout)["findings"]}


def test_many_are_counted_and_a_few_are_named():
    group = Group()
    for number in range(5):
        group.note(f"w {number}", "why" if number else None)
    assert group.told() == ("w 0", "w 1: why", "w 2: why", "and 2 more")


def waits(error="OSError: down", *, until=90_000, began=0, beat=0, op="pay#0"):
    return Waits((Wait(kind=STEP, op=op, until=until, began=began, beat=beat, error=error),))


def found_at(now, noted):
    waiting = Waiting(now)
    for id, each in noted.items():
        waiting.note(partition_of("w", id), each)
    return {each.check: each for each in waiting.findings()}


def test_steps_that_are_tried_again_are_told_by_step_and_error():
    noted = {"runs": waits(began=1), "never failed": waits(error="")}
    assert found_at(0, noted)["retries"].told == "no step waits for its next attempt"
    for number in range(STORM - 1):
        noted[f"{number}"] = waits(until=1_000 + number, op=f"branch#{number}/pay#0")
    assert found_at(0, noted)["retries"].level == "ok"
    found = found_at(0, {**noted, "last": waits(until=500)})["retries"]
    assert found.level == "warn"
    assert "10 executions wait for the next attempt of a step, 10 of them after one error" in found.told
    assert found.examples == ("holdfast show w 0: 10 × step pay, OSError: down; the next attempt in 500 ms",)


def test_a_distant_attempt_is_a_warning():
    noted = {"a": waits("Limited: 429", until=3_600_000)}
    assert found_at(0, noted)["retries"].level == "warn"
    assert found_at(3_600_000, noted)["retries"].examples[0].endswith("Limited: 429; the next attempt now")


def test_a_step_that_tells_nothing_is_named_unless_its_heart_beats():
    noted = {"hangs": waits(began=1), "beats": waits(began=1, beat=300_000)}
    assert found_at(300_001, noted)["silent"].examples == (
        "holdfast show w hangs: step pay has told nothing for 5 m 00 s",
    )
    assert found_at(30_000, noted)["silent"].examples == ()


def test_no_step_is_silent_that_no_process_runs():
    waiting = Waiting(300_001)
    waiting.note(partition_of("w", "stopped"), waits(began=1), held=False)
    assert not waiting.silent.count


def test_a_signal_whose_name_looks_mistyped_is_a_warning():
    noted = {
        "mistyped": Waits((Wait(kind=SIGNAL, op="approved"),), untaken=("aproved", "payment")),
        "early": Waits((Wait(kind=SIGNAL, op="approved"),), untaken=("payment",)),
    }
    found = found_at(0, noted)["signals"]
    assert (found.level, found.examples) == (
        "warn",
        ("holdfast show w mistyped: it waits for signal approved, and aproved came",),
    )


async def test_a_home_without_a_file_has_nothing_to_examine():
    (finding,) = [each async for each in check_file(open_memory_home())]
    assert finding.level == "ok"


@pytest.mark.parametrize(
    ("free_bytes", "log_bytes", "level"),
    [(2**40, 0, "ok"), (2**20, 0, "warn"), (2**20 - 1, 0, "fail"), (2**40, 2**30, "warn")],
)
def test_a_full_disk_and_an_endless_log_are_warnings(free_bytes, log_bytes, level):
    facts = Checkup(
        path="shop.db",
        sqlite_version="3.54.1",
        schema_version=1,
        settings={},
        modes={},
        foreign=[],
        size_bytes=1,
        log_bytes=log_bytes,
        free_bytes=free_bytes,
    )
    assert _check_space(facts).level == level


@pytest.mark.parametrize(
    ("free_bytes", "why"),
    [(2**40, "its event loop hangs"), (0, "the disk is full, and it keeps what it has done until there is room")],
)
def test_a_process_is_not_said_to_hang_if_a_full_disk_keeps_its_leases_from_renewal(
    started, monkeypatch, free_bytes, why
):
    late = WorkerStatus(owner="4711-1", here=False, alive=True, until=datetime.now(UTC) - timedelta(minutes=1))

    async def workers(*_, **__):
        return WorkerPage((late,), None)

    monkeypatch.setattr(processes, "list_workers", workers)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(2**40, 2**40 - free_bytes, free_bytes))
    (told,) = findings(started, exit_code=0 if free_bytes else 1)["stopped"]["examples"]
    assert told.startswith("process 4711 has not renewed its leases for 1 m 0")
    assert told.endswith(f": {why}: it has nothing")


def test_a_file_of_another_user_is_a_warning():
    facts = Checkup(
        path="shop.db",
        sqlite_version="3.54.1",
        schema_version=1,
        settings={},
        modes={"shop.db": 0o600},
        foreign=["shop.db"],
        size_bytes=1,
        log_bytes=0,
        free_bytes=2**40,
    )
    assert "warn" in {finding.level for finding in _check_permissions(facts)}


# ── What fails ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_of_something_else_fails(started):
    started.path("shop.db").write_bytes(b"no database at all" * 1000)
    for suffix in ("-wal", "-shm"):
        started.path(f"shop.db{suffix}").unlink(missing_ok=True)
    found = findings(started, exit_code=1)
    assert found["file"]["level"] == "fail"


def test_a_torn_page_fails(started):
    for number in range(40):
        started.json("start", "approval", "7", "--id", f"filler-{number}")
    path = started.path("shop.db")
    data = bytearray(path.read_bytes())
    assert len(data) > 5 * 4096
    data[2 * 4096 : 3 * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    result = started.invoke("doctor", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["level"] == "fail"


def test_a_file_of_a_newer_version_fails(started):
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(started.path("shop.db"))) as db:
        db.execute("PRAGMA user_version = 99")
    found = findings(started, exit_code=1)
    assert "newer" in found["file"]["told"]


def test_actors_that_halted_and_messages_that_are_parked_are_counted(shop, worker):
    found = findings(shop)
    assert [found[each]["level"] for each in ("halted", "parked")] == ["ok", "ok"]
    shop.json("actor", "send", "Till", "t 1", "pay", "[0]")
    for order in ("1", "2"):
        worker.publish_placed(f"bad {order}", id=order)
    while True:
        found = findings(shop)
        if found["halted"]["level"] == "warn" and found["parked"]["told"].startswith("2 messages"):
            break
    assert found["parked"]["level"] == "warn"
    assert "holdfast dlq ls" in found["parked"]["told"]
    assert found["halted"]["told"].startswith("1 halted at a message that fails")
    assert found["halted"]["examples"] == ["holdfast actor show Till 't 1'"]
    findings(shop, "--strict", exit_code=1)
