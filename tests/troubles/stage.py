"""A home with troubles in it: workers in processes of their own, servers that do harm, and a person at a terminal."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from click.testing import CliRunner
from tests.troubles.pages import clicked

import holdfast
from holdfast.cli import main

F = TypeVar("F", bound=Callable[..., Any])

HOUR_MS: Final = 3_600_000
HANGS_AFTER_SECONDS: Final = 120.0
BETWEEN_LOOKS_SECONDS: Final = 0.02
LEASE_MS: Final = 4_000
MOST_COMMANDS: Final = 2
PATHS: Final = (Path(holdfast.__file__).parents[1], Path(__file__).parent)

TOLD: Final[dict[str, tuple[str, ...]]] = {}
"""The commands that tell each trouble, by its name."""

PAGES: Final[dict[str, tuple[str, ...]]] = {}
"""The links that lead from the overview of the dashboard to the page that tells each trouble."""


def trouble(name: str, *commands: str, pages: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Marks the test of a trouble. ``commands`` tell it, one after the other, as docs/troubleshooting.md says, and so
    do ``pages``.
    """
    assert 1 <= len(commands) <= MOST_COMMANDS
    assert len(pages) <= MOST_COMMANDS
    assert name not in TOLD
    TOLD[name], PAGES[name] = commands, pages
    return lambda test: test


class Stage:
    """A folder with a home. ``environment`` is that of its workers and commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"HOLDFAST_URL": f"sqlite:///{folder}/shop.db", "PLANTED_LEASE_MS": f"{LEASE_MS}"}
        self.workers: list[Worker] = []

    @property
    def home(self) -> str:
        return self.environment["HOLDFAST_URL"]

    def holdfast(self, command: str, exit_codes: tuple[int, ...] = (0, 1)) -> str:
        """What a command prints for people."""
        with contextlib.chdir(self.folder):
            result = CliRunner().invoke(main, shlex.split(command), env={"HOLDFAST_APP": None, **self.environment})
        assert result.exit_code in exit_codes, result.output
        return result.output

    def json(self, command: str) -> Any:
        return json.loads(self.holdfast(f"{command} --json", (0,)))

    def look(self, *commands: str) -> str:
        """Type these commands, of which each but the first is named by what the one before printed. What the last one
        prints.
        """
        assert 1 <= len(commands) <= MOST_COMMANDS
        told = self.holdfast(commands[0])
        for command in commands[1:]:
            assert is_named(command, told), f"{command!r} is not named in:\n{told}"
            told = self.holdfast(command)
        return told

    def click(self, *labels: str) -> str:
        """What the page of the dashboard says to which these links lead from its overview."""
        assert len(labels) <= MOST_COMMANDS
        return clicked(self.home, *labels)

    def until(self, command: str, found: Callable[[Any], object]) -> Any:
        """The answer of a command, once it is as expected."""
        deadline = time.monotonic() + HANGS_AFTER_SECONDS
        while not found(answer := self.json(command)):
            assert time.monotonic() < deadline, answer
            time.sleep(BETWEEN_LOOKS_SECONDS)
        return answer

    def until_told(self, command: str, words: str) -> str:
        """What a command prints for people, once it says that."""
        deadline = time.monotonic() + HANGS_AFTER_SECONDS
        while words not in (told := self.holdfast(command)):
            assert time.monotonic() < deadline, told
            time.sleep(BETWEEN_LOOKS_SECONDS)
        return told

    def status(self, workflow: str, id: str, *statuses: str) -> None:
        """Wait until an execution has one of these."""
        self.until(f"show {workflow} {id}", lambda shown: shown["execution"]["status"] in statuses)

    def waits(self, workflow: str, id: str) -> None:
        """Wait until an execution tells what it waits for."""
        self.until(f"show {workflow} {id}", lambda shown: shown["execution"]["waits"])

    def code(self, **environment: str) -> Any:
        """The planted shop as a module in this process, to be a client of the home, or a worker."""
        spec = importlib.util.spec_from_file_location("planted", PATHS[1] / "planted.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (self.environment | environment).items():
                patch.setenv(name, value)
            patch.setitem(sys.modules, "planted", module)
            spec.loader.exec_module(module)
        return module

    def worker(self, **environment: str) -> Worker:
        self.workers.append(Worker(self.folder, self.environment | environment))
        return self.workers[-1]

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()


def is_named(command: str, told: str) -> bool:
    """Whether an answer says which command is next: in words, or by the row of an execution in a list."""
    verb, *names = command.split()
    row = verb == "show" and any(line.split()[:2] == names for line in told.splitlines())
    return row or f"holdfast {command}" in told


class Worker:
    """``holdfast run`` in a process of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        path = os.pathsep.join(map(str, PATHS))
        with (folder / "worker.log").open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli", "run", "planted:app", "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=os.environ | environment | {"PYTHONPATH": path},
            )
        self.pid = self.process.pid
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        assert '"ready"' in ready, (folder / "worker.log").read_text(encoding="utf-8")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Harmful:
    """Servers on loopback: one that never answers, one that answers 429, and a port where none is."""

    def __init__(self) -> None:
        self._silent = socket.create_server(("127.0.0.1", 0))
        self._busy = ThreadingHTTPServer(("127.0.0.1", 0), _Busy)
        self._thread = threading.Thread(target=self._busy.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        with socket.create_server(("127.0.0.1", 0)) as gone:
            self.closed = f"http://127.0.0.1:{gone.getsockname()[1]}/"
        self.silent = f"http://127.0.0.1:{self._silent.getsockname()[1]}/"
        self.busy = f"http://127.0.0.1:{self._busy.server_port}/"

    def close(self) -> None:
        self._busy.shutdown()
        self._busy.server_close()
        self._thread.join()
        self._silent.close()


class _Busy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(429)
        self.send_header("Retry-After", "3600")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def harmful() -> Iterator[Harmful]:
    servers = Harmful()
    try:
        yield servers
    finally:
        servers.close()
