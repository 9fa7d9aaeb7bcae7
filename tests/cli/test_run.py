"""`holdfast run` with real processes: signals, crashes, replacements, orphans."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.test_metrics import metrics_of

import holdfast
from holdfast.cli.supervisor import LONGEST_DELAY_SECONDS, delay_seconds, describe_exit

pytestmark = pytest.mark.process

HANGS_AFTER_SECONDS = 100.0
SOURCES = Path(holdfast.__file__).parents[1]


class Running:
    """A `holdfast run` with its events."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "holdfast.cli", "run", "shop:app", "--json", "--grace", "5s", *options]
        path = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment)
        self.watchdog = threading.Timer(HANGS_AFTER_SECONDS, self.process.kill)
        self.watchdog.start()
        self.seen: list[dict[str, Any]] = []
        self.metrics: list[str] = []

    def next(self, event: str, count: int = 1) -> dict[str, Any]:
        """Wait for so many of these events, and answer the last."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if "event" not in told:
                self.metrics.append(line.rstrip("\n"))
                continue
            self.seen.append(told)
            if told["event"] == event:
                count -= 1
                if count == 0:
                    return self.seen[-1]
        raise AssertionError(f"it ended before {event}: {self.seen}")

    def pids(self) -> set[int]:
        """The workers that were ever ready."""
        return {event["pid"] for event in self.seen if event["event"] == "ready"}

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Its exit status, once it and all its workers have ended: they share its standard output."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(json.loads(line))
        return self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.end()
        self.watchdog.cancel()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def running(shop) -> Iterator[Any]:
    started: list[Running] = []

    def run(*options: str) -> Running:
        started.append(Running(*options))
        return started[-1]

    yield run
    for each in started:
        each.close()


def holding(shop) -> dict[str, Any]:
    return shop.json("show", "holding", "a")


def test_a_worker_says_what_it_serves_and_stops_on_sigterm(shop, running):
    worker = running()
    ready = worker.next("ready")
    assert ready["pid"] == worker.process.pid
    assert "checkout" in ready["workflows"]
    assert shop.json("start", "checkout", '["visa"]', "--wait")["result"] == {"payment": "pay-visa-100"}
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0
    assert [event["event"] for event in worker.seen] == ["ready", "stopping", "stopped"]


def test_each_worker_writes_a_line_of_metrics_if_it_is_asked_to(shop, running):
    workers = running("--workers", "2", "--metrics")
    workers.next("ready", 2)
    assert [metrics_of(line)["DueHeads"] for line in workers.metrics] == [0, 0]
    workers.signal(signal.SIGTERM)
    assert workers.end() == 0


def test_a_worker_serves_metrics_on_a_port_if_it_is_asked_to(shop, running):
    worker = running("--metrics-port", "0")
    url = worker.next("metrics")["url"]
    assert shop.json("start", "checkout", '["visa"]', "--wait")["result"] == {"payment": "pay-visa-100"}
    with urllib.request.urlopen(url, timeout=HANGS_AFTER_SECONDS) as answer:  # noqa: S310 - it is on loopback
        found = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
    assert [each.value for each in found["holdfast_executions_ended"].samples] == [1.0]
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0


def test_each_of_several_workers_has_a_port_of_its_own(shop, running):
    workers = running("--workers", "2", "--metrics-port", "0")
    workers.next("metrics", 2)
    urls = {event["url"] for event in workers.seen if event["event"] == "metrics"}
    assert len(urls) == 2
    workers.signal(signal.SIGTERM)
    assert workers.end() == 0


def test_a_port_of_metrics_that_others_can_reach_needs_tokens(shop, monkeypatch):
    monkeypatch.delenv("HOLDFAST_TOKENS", raising=False)
    refusal = shop.refusal("run", "shop:app", "--metrics-port", "0", "--metrics-host", "0.0.0.0")  # noqa: S104 - refused
    assert refusal["code"] == "configuration" and "--tokens" in refusal["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_graceful_stop_lets_running_steps_finish(number, shop, running, news):
    workers = running("--workers", "2")
    workers.next("ready", 2)
    shop.json("start", "holding", "--id", "a")
    pid = int(next(news))
    assert pid in workers.pids()
    workers.signal(number)
    workers.next("stopping", 3)
    shop.path("go").touch()
    assert workers.end() == 0
    (step,) = holding(shop)["timeline"]
    assert (step["name"], step["outcome"], step["attempts"]) == ("hold#0", "done", 1)


def test_a_killed_worker_is_replaced_and_its_work_goes_on(shop, running, news):
    workers = running("--workers", "2")
    workers.next("ready", 2)
    shop.json("start", "holding", "--id", "a")
    victim = int(next(news))
    os.kill(victim, signal.SIGKILL)
    assert workers.next("worker_died")["reason"] == "killed by SIGKILL"
    assert workers.next("ready")["pid"] != victim
    assert len(workers.pids()) == 3
    assert int(next(news)) != victim
    shop.path("go").touch()
    assert shop.json("result", "holding", "a", "--timeout", "20s")["result"] == "held"
    takeovers = [line for line in holding(shop)["timeline"] if line["kind"] == "takeover"]
    assert len(takeovers) == 1
    workers.signal(signal.SIGTERM)
    assert workers.end() == 0


@pytest.mark.parametrize("count", [1, 2])
def test_a_second_signal_ends_it_at_once(count, shop, running, news):
    workers = running("--workers", str(count))
    workers.next("ready", count)
    shop.json("start", "holding", "--id", "a")
    next(news)
    workers.signal(signal.SIGTERM)
    workers.next("stopping")
    workers.signal(signal.SIGTERM)
    workers.end()
    assert holding(shop)["timeline"] == []
    assert holding(shop)["owner_alive"] is False


def test_workers_stop_when_their_supervisor_is_killed(shop, running):
    workers = running("--workers", "2")
    workers.next("ready", 2)
    workers.signal(signal.SIGKILL)
    assert workers.end() == -signal.SIGKILL
    assert [event["event"] for event in workers.seen].count("stopped") == 2


def test_an_app_that_cannot_be_imported_ends_it_at_once(shop):
    shop.path("shop.py").write_text("import nowhere\n")
    assert shop.refusal("run", "shop:app", "--workers", "2")["code"] == "configuration"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_home_that_does_not_open_ends_it_at_once(workers, shop):
    shop.path("shop.db").write_bytes(b"no database at all" * 1000)
    assert shop.refusal("run", "shop:app", "--workers", workers)["code"] == "store_unusable"


def test_the_memory_home_is_for_one_worker(shop):
    assert "SQLite" in shop.refusal("run", "shop:app", "--workers", "2", "--home", "memory://")["message"]


def test_a_worker_that_keeps_dying_is_started_less_and_less_often():
    delays = [delay_seconds(failures) for failures in range(12)]
    assert delays == sorted(delays)
    assert delays[0] < 1
    assert delays[-1] == LONGEST_DELAY_SECONDS


def test_the_end_of_a_process_is_told():
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(3) == "exit status 3"
