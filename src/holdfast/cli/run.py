"""``holdfast run``: work on an app's executions, in this process or in several."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import click

from holdfast.app import App
from holdfast.cli.listening import callers_of, listening, tokens_option, url_of
from holdfast.cli.logs import begin_log, log_format_option, log_level_option
from holdfast.cli.output import as_json, echo
from holdfast.cli.reloading import Reloader, check_command
from holdfast.cli.session import APP_VARIABLE, Session, debug_option, examples, home_option, json_option
from holdfast.cli.supervisor import Supervisor
from holdfast.cli.values import duration
from holdfast.errors import ConfigurationError
from holdfast.http.authentication import BearerTokens
from holdfast.http.metrics_port import metrics_port as metrics_port_of
from holdfast.runtime.collecting import frozen
from holdfast.runtime.meters import meters_of
from holdfast.runtime.metrics import write_metrics
from holdfast.runtime.worker import DEFAULT_GRACE_SECONDS, stop_requested
from holdfast.texts import told_url

MOST_WORKERS: Final = 256

TEXTS: Final[dict[str, str]] = {
    "started": "{workers} workers on {home}; Ctrl-C or SIGTERM stops them",
    "ready": "worker {pid} on {home} serves {workflows}; Ctrl-C or SIGTERM stops it",
    "metrics": "metrics for Prometheus at {url}",
    "worker_started": "worker {place} is process {pid}",
    "worker_died": "worker {place} died ({reason}); the next one starts in {restart_in_seconds} s",
    "stopping": "process {pid} is stopping; a second signal ends it at once",
    "worker_stopped": "worker {place} (process {pid}) has stopped",
    "stopped": "process {pid} has stopped",
    "changed": "changed: {files}",
    "import_failed": "the app does not import; no worker runs until a file changes: {error}",
    "would_block": "warning: this code would block {workflow} {id}: {reason}",
    "replayed": "replayed the {replayed} newest open executions: this code would block {would_block} of them",
    "not_replayed": "warning: open executions were not replayed with this code: {error}",
}
"""Each event of ``holdfast run``: its ``event`` in JSON, and what people read."""

Report = Callable[..., None]


@click.command(
    "run",
    epilog=examples(
        "holdfast run shop:app",
        "holdfast run shop:app --workers 4 --grace 30s",
        "holdfast run shop:app --reload",
        "holdfast run shop:app --home sqlite:////var/lib/shop/shop.db",
    ),
)
@click.argument("app", metavar="MODULE:APP", envvar=APP_VARIABLE)
@click.option(
    "-w", "--workers", type=click.IntRange(1, MOST_WORKERS), default=1, show_default=True, help="Worker processes."
)
@click.option(
    "--grace",
    metavar="DURATION",
    type=duration,
    default=f"{DEFAULT_GRACE_SECONDS:g}s",
    show_default=True,
    help="How long running steps may take to finish when it is stopped; the rest is handed over.",
)
@log_level_option
@log_format_option
@click.option("--metrics", is_flag=True, help="Write a line of metrics a minute, as CloudWatch takes them.")
@click.option(
    "--metrics-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Serve metrics for Prometheus at GET /metrics on this port; each further worker takes the next one.",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address of --metrics-port.")
@tokens_option
@click.option("--reload", is_flag=True, help="For development: start again when the code of the app changes.")
@click.option("--supervised", is_flag=True, hidden=True, help="Stop when standard input ends: the supervisor is gone.")
@home_option
@json_option
@debug_option
def run(  # noqa: PLR0913 - each is an option of the command line
    *,
    app: str,
    workers: int,
    grace: float,
    log_level: str,
    log_format: str,
    metrics: bool,
    metrics_port: int | None,
    metrics_host: str,
    tokens: Path | None,
    reload: bool,
    supervised: bool,
    home: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Work on the executions of an app until SIGTERM or Ctrl-C.

    MODULE:APP is found from the current directory, as by uvicorn; it may also be given as $HOLDFAST_APP. Any number of
    workers, here and from other commands, share one home safely. A worker that dies is replaced, and its executions
    continue where they were. The first signal stops gracefully, the second at once.
    """
    session = Session(app_name=app, home=home, json=as_json, debug=debug)
    report = _reporter(for_machines=as_json)
    options = ["--metrics"] if metrics else []
    if tokens is not None:
        options += ["--tokens", str(tokens)]
    common = _worker_command(session, grace, log_level, log_format, options)
    command = partial(_with_port, common, metrics_host, metrics_port)
    if reload:
        _reload(session, partial(Supervisor, command, workers, grace, report), report, workers)
        return
    found = session.app()
    _refuse_nothing_to_do(found, app)
    begin_log(log_level, log_format)
    callers = None if metrics_port is None else callers_of(metrics_host, tokens)
    if workers == 1:
        if metrics:
            write_metrics(found)
        with contextlib.ExitStack() as stack:
            port: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()
            if metrics_port is not None:
                port = _measured(found, stack.enter_context(listening(metrics_host, metrics_port)), callers, report)
            found.run(_serve(found, report, port, supervised=supervised), grace=grace)
        report("stopped", pid=os.getpid())
        return
    _refuse_memory(found.home_url, workers)
    session.run(look_whether_it_opens, found)
    report("started", pid=os.getpid(), workers=workers, home=found.home_url)
    asyncio.run(_supervise(command, workers, grace, report, supervised=supervised))
    report("stopped", pid=os.getpid())


def _reload(session: Session, supervisor: Callable[[], Supervisor], report: Report, workers: int) -> None:
    assert session.app_name is not None
    check = check_command(session.app_name, session.home)
    asyncio.run(Reloader(check, partial(_refuse_memory, workers=workers), supervisor, report).run())
    report("stopped", pid=os.getpid())


def _refuse_memory(home: str, workers: int) -> None:
    if workers > 1 and home.startswith("memory:"):
        raise ConfigurationError(f"{home} lives in one process; several workers need a SQLite home")


def _with_port(command: Sequence[str], host: str, port: int | None, place: int) -> list[str]:
    """The command of the worker at a place, which has a port of its own."""
    if port is None:
        return list(command)
    return [*command, "--metrics-host", host, "--metrics-port", str(port + place - 1 if port else 0)]


def _refuse_nothing_to_do(app: App, name: str) -> None:
    if app.is_empty:
        raise ConfigurationError(
            f"{name} is {app!r}, and nothing is declared on it: no workflow, actor, consumer or schedule. A worker "
            "would do nothing. Name the module that declares them, or import it where the app is made"
        )


async def look_whether_it_opens(_app: App) -> None:
    """Report what is wrong with the home once, here, rather than in every worker again and again."""


def _worker_command(session: Session, grace: float, log_level: str, log_format: str, more: Sequence[str]) -> list[str]:
    assert session.app_name is not None
    options = ["--supervised", "--grace", f"{grace}s", "--log-level", log_level]
    options += ["--log-format", log_format]
    if session.home is not None:
        options += ["--home", session.home]
    flags = (("--json", session.json), ("--debug", session.debug))
    options += [*(flag for flag, wanted in flags if wanted), *more]
    return [sys.executable, "-m", "holdfast.cli", "run", session.app_name, *options]


async def _supervise(
    command: Callable[[int], Sequence[str]], workers: int, grace: float, report: Report, *, supervised: bool
) -> None:
    supervisor = Supervisor(command, workers, grace, report)
    watch = asyncio.ensure_future(_stop_when_alone(supervisor)) if supervised else None
    try:
        await supervisor.run()
    finally:
        if watch is not None:
            watch.cancel()


async def _stop_when_alone(supervisor: Supervisor) -> None:
    await _supervisor_gone()
    supervisor.stop()


@contextlib.asynccontextmanager
async def _measured(
    app: App, listener: socket.socket, callers: BearerTokens | None, report: Report
) -> AsyncGenerator[None]:
    """Count from now on, and serve the numbers."""
    meters_of(app)
    async with metrics_port_of(app, listener, callers):
        report("metrics", url=f"{url_of(listener)}/metrics")
        yield


async def _serve(
    app: App, report: Report, port: contextlib.AbstractAsyncContextManager[None], *, supervised: bool
) -> None:
    workflows = sorted(app.registry.workflows)
    asked = [asyncio.ensure_future(stop_requested())]
    if supervised:
        asked.append(asyncio.ensure_future(_supervisor_gone()))
    await asyncio.sleep(0)  # so that the signal handlers are set before we report that we are ready
    report("ready", pid=os.getpid(), home=app.home_url, workflows=workflows)
    try:
        with frozen(app.limits.collect_after):
            async with port:
                await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        report("stopping", pid=os.getpid())
    finally:
        for each in asked:
            each.cancel()


async def _supervisor_gone() -> None:
    """Wait for the end of standard input, whose other end the supervisor holds as long as it lives."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        await reader.read()
    finally:
        transport.close()


def _reporter(*, for_machines: bool) -> Report:
    def report(event: str, **fields: Any) -> None:
        if for_machines:
            echo(as_json({"event": event, **fields}))
            return
        told = {name: told_url(_listed(value)) if name == "home" else _listed(value) for name, value in fields.items()}
        echo(f"holdfast: {TEXTS[event].format(**told)}", err=True)

    return report


def _listed(value: Any) -> Any:
    return ", ".join(cast("list[str]", value)) if isinstance(value, list) else value
