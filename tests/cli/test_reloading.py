"""`holdfast run --reload` with real processes: changes, code that does not import, signals, orphans."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator

import pytest
from tests.cli.test_run import HANGS_AFTER_SECONDS, Running

pytestmark = pytest.mark.process


@pytest.fixture
def reloading(shop) -> Iterator[Running]:
    started = Running("--reload")
    yield started
    started.close()


def change(shop, before: str, after: str) -> None:
    """Write the code anew, as editors do: another file under its name."""
    code = shop.path("shop.py").read_text()
    assert before in code
    shop.path("new").write_text(code.replace(before, after))
    shop.path("new").rename(shop.path("shop.py"))


def test_changed_code_takes_over_after_it_was_tried_on_open_executions(shop, reloading):
    assert reloading.next("replayed")["replayed"] == 0
    first = reloading.next("ready")["pid"]
    shop.json("start", "parcel", "--id", "a")
    while not shop.json("show", "parcel", "a")["timeline"]:
        time.sleep(0.05)

    change(shop, "await tell(callback.token)", "await tell('another')")
    assert reloading.next("changed")["files"] == ["shop.py"]
    unfit = reloading.next("would_block")
    assert (unfit["workflow"], unfit["id"]) == ("parcel", "a")
    assert "tell#0: the journal and the code disagree" in unfit["reason"]
    told = reloading.next("replayed")
    assert (told["replayed"], told["would_block"], told["more"]) == (1, 1, False)
    assert reloading.next("ready")["pid"] != first

    change(shop, "import asyncio", "import asyncio, mended")
    assert "mended" in reloading.next("import_failed")["error"]
    shop.path("mended.py").write_text("this is no Python\n")  # appears, and does not import
    assert "mended.py:1" in reloading.next("import_failed")["error"]
    change(shop, "await tell('another')", "await tell(callback.token)")
    reloading.next("import_failed")
    shop.path("mended.py").write_text("")
    assert reloading.next("replayed")["would_block"] == 0
    reloading.next("ready")

    shop.path("mended.py").unlink()
    assert reloading.next("changed")["files"] == ["mended.py"]
    reloading.next("import_failed")
    reloading.signal(signal.SIGTERM)
    assert reloading.end() == 0
    assert reloading.seen[-1]["event"] == "stopped"


def test_a_worker_stops_when_its_supervisor_is_killed(reloading):
    reloading.next("ready")
    reloading.signal(signal.SIGKILL)
    assert reloading.end() == -signal.SIGKILL
    assert [event["event"] for event in reloading.seen].count("stopped") == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_code_that_hangs_in_its_import_ends_with_the_supervisor(number, shop, news):
    change(shop, "import asyncio", "import os, time; open('news', 'w').write(f'{os.getpid()}\\n'); time.sleep(1e6)")
    reloading = Running("--reload")
    importing = os.pidfd_open(int(next(news)))
    try:
        reloading.signal(number)
        assert reloading.process.wait() == (-number if number == signal.SIGKILL else 0)
        assert select.select([importing], [], [], HANGS_AFTER_SECONDS)[0]
    finally:
        os.close(importing)
        reloading.close()


def test_a_stop_while_it_reloads_is_graceful(shop, reloading, news):
    reloading.next("ready")
    shop.json("start", "holding", "--id", "a")
    next(news)
    change(shop, "import asyncio", "import asyncio, os")
    reloading.next("stopping", 2)
    reloading.signal(signal.SIGTERM)
    shop.path("go").touch()
    assert reloading.end() == 0
    (step,) = shop.json("show", "holding", "a")["timeline"]
    assert (step["outcome"], step["attempts"]) == ("done", 1)


def test_the_memory_home_is_for_one_worker(shop):
    refusal = shop.refusal("run", "shop:app", "--reload", "--workers", "2", "--home", "memory://")
    assert "SQLite" in refusal["message"]
