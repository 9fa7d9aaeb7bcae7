"""What every test gets: `async def` tests run, no home leaks in from outside, Hypothesis tells its failures fully."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest
from hypothesis import settings

os.environ.pop("HOLDFAST_URL", None)
os.environ.setdefault("HOLDFAST_LOOP", "asyncio")  # what users have who have not asked for uvloop
# Tests start processes by the hundred: without bytecode each would compile the library anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell that runs this in the background had it ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)

NOT_TESTED = "NOT TESTED"
"""How the reason of a skip begins if something that should be here is missing."""

HOW_TO_GET_THEM = (
    "On Debian: apt-get install chromium default-jre-headless npm redis-server. The rest is fetched into .tools by "
    "the first run that finds these, CDK (400 MB) by make test-cdk. CI, which installs all of it and skips nothing: "
    ".ci/run"
)

SKIP_NOTHING = "HOLDFAST_SKIP_NOTHING"
"""Set it, as CI does, to make each skipped test a failure."""

EVERYTHING = "HOLDFAST_TORTURE"
HOSTILE = "HOLDFAST_HOSTILE"
"""Set it to a seed to run the tests on DynamoDB, and only those, through ``tests/backends/aws/hostile.py``."""

ON_SEVERAL_HOMES = frozenset({"actors", "coordination", "crash", "flow", "http", "messaging", "patterns", "workflows"})
ONE_IN_SO_MANY = 6
"""Of the tests in these folders, one in so many runs on DynamoDB too, always the same ones: an emulator takes
milliseconds for what memory does in microseconds. ``make torture-aws`` runs them all."""

# A deadline per example would measure the machine, not the code.
settings.register_profile("holdfast", deadline=None, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("holdfast")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage neither while tests are collected, nor ever again among what that has made: it all stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on an event loop of its own; under `@given`, one loop per example."""
    test = pyfuncitem.obj
    if hasattr(test, "hypothesis"):
        if inspect.iscoroutinefunction(test.hypothesis.inner_test):
            test.hypothesis.inner_test = _on_its_own_loop(test.hypothesis.inner_test)
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    asyncio.run(test(**arguments))
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what DynamoDB has not, and most of what runs on DynamoDB besides."""
    left_out = [item for item in items if _is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_left_out(item)]


def on_dynamodb_at_all(item: pytest.Item) -> bool:
    """Whether a test needs DynamoDB Local, or may."""
    return item.get_closest_marker("aws") is not None


def _is_left_out(item: pytest.Item) -> bool:
    path, _, parameters = item.nodeid.partition("[")
    on_dynamodb = "dynamodb" in parameters
    if on_dynamodb and item.get_closest_marker("not_on_dynamodb") is not None:
        return True
    if HOSTILE in os.environ and (item.get_closest_marker("gentle") is not None or not on_dynamodb_at_all(item)):
        return True
    if EVERYTHING in os.environ:
        return False
    if item.get_closest_marker("torture") is not None:
        return True
    besides = on_dynamodb and not ON_SEVERAL_HOMES.isdisjoint(path.split("/")[1:2])
    return besides and zlib.crc32(item.nodeid.encode()) % ONE_IN_SO_MANY != 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let what was skipped be a failure where nothing may be."""
    report = yield
    if report.skipped and SKIP_NOTHING in os.environ:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: {SKIP_NOTHING} is set, and it was skipped: {report.longrepr}"
    return report


def pytest_sessionfinish() -> None:
    """Say what a hostile DynamoDB has done, and fail if that was nothing."""
    if HOSTILE in os.environ:
        from tests.backends.aws import hostile

        for line in hostile.told():
            print(f"\n{line}", file=sys.__stderr__)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what this machine could not test."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if NOT_TESTED in str(report.longrepr)]
    if skipped:
        told = [str(report.longrepr[-1]) for report in skipped if isinstance(report.longrepr, tuple)]
        terminalreporter.write_sep("!", f"{len(skipped)} tests were skipped, for want of tools", red=True, bold=True)
        for reason, count in sorted(Counter(told).items()):
            terminalreporter.write_line(f"{count} × {reason.removeprefix('Skipped: ')}", red=True)
        terminalreporter.write_line(HOW_TO_GET_THEM, red=True)


def _on_its_own_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
