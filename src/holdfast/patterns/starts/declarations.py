"""What ``app.debounce``, ``collect``, ``single`` and ``throttle`` declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, ParamSpec, TypeVar, cast, overload

from holdfast.duration import Duration, milliseconds, seconds
from holdfast.errors import ConfigurationError
from holdfast.functions import told
from holdfast.kernel.runtime import Declares
from holdfast.patterns.starts.collected import Collector, element_encoder, list_parameter
from holdfast.patterns.starts.debounced import Debouncer
from holdfast.patterns.starts.keyed import Starts, handle_if_any, hidden_starter
from holdfast.patterns.starts.promised import Promised, promised_by
from holdfast.patterns.starts.single import Mode, Singleton
from holdfast.patterns.starts.throttled import Throttler
from holdfast.workflows.definition import Workflow
from holdfast.workflows.handle import Handle
from holdfast.workflows.starting import Call

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

MOST_COLLECTED: Final = 1_000
"""Each request writes again what waits of its key: more would cost too much."""


def debounce(
    app: Declares,
    workflow: Workflow[P, R],
    /,
    *,
    quiet: Duration,
    longest: Duration | None = None,
    name: str | None = None,
) -> Starts[P, Promised[R]]:
    """Start a workflow once the requests of a key have stopped for ``quiet``, with the arguments of the last one.

    It starts at the latest when the first request has waited for ``longest``, ten times ``quiet`` by default. All
    requests of one round answer a handle on the same execution, which begins later: exactly once (G4, G8).

        reindex_soon = app.debounce(reindex, quiet="5s", longest="1m")
        handle = await reindex_soon.at("doc-7").start(document)
    """
    quiet_seconds = _positive("quiet", quiet)
    longest_seconds = 10 * quiet_seconds if longest is None else _positive("longest", longest)
    if longest_seconds < quiet_seconds:
        raise ConfigurationError(f"longest ({longest}) is shorter than quiet ({quiet}): nothing would ever be quiet")
    rules = {"quiet_seconds": quiet_seconds, "longest_seconds": longest_seconds}
    actor = hidden_starter(app, Debouncer, "debounce", name, _workflow(workflow, "debounce"), **rules)
    return Starts(actor, workflow.signature.bind, promised_by(workflow, app.runtime))


def collect(
    app: Declares,
    workflow: Callable[[list[T]], Call[R]],
    /,
    *,
    within: Duration,
    most: int = 100,
    name: str | None = None,
) -> Starts[[T], Promised[R]]:
    """Start a workflow, which takes one list, with the elements that have come for a key.

    It starts when there are ``most`` of them, or 128 KiB, or the first one has waited for ``within``. Each element is
    in one batch, in the order of the requests (G4, G5). Its request answers a handle on the execution that takes it.

        rows = app.collect(ingest, most=100, within="2s")
        handle = await rows.at("tenant-1").start(row)
    """
    known = _workflow(workflow, "collect")
    given: Any = most  # users without a type checker
    if type(given) is not int or not 1 <= most <= MOST_COLLECTED:
        raise ConfigurationError(f"most is how many elements an execution takes, 1 to {MOST_COLLECTED}, not {most!r}")
    encode = element_encoder(known.signature)
    rules = {
        "most": most,
        "within_seconds": _positive("within", within),
        "parameter": list_parameter(known.signature),
    }
    actor = hidden_starter(app, Collector, "collect", name, known, **rules)
    return Starts(actor, encode, promised_by(known, app.runtime))


@overload
def single(
    app: Declares, workflow: Workflow[P, R], /, *, mode: Literal["join", "replace"], name: str | None = ...
) -> Starts[P, Handle[R]]: ...
@overload
def single(
    app: Declares, workflow: Workflow[P, R], /, *, mode: Literal["skip"] = ..., name: str | None = ...
) -> Starts[P, Handle[R] | None]: ...
def single(
    app: Declares,
    workflow: Workflow[P, R],
    /,
    *,
    mode: Literal["skip", "join", "replace"] = "skip",
    name: str | None = None,
) -> Starts[P, Any]:
    """Start a workflow for a key unless an execution that was started here for that key is open.

    ``mode`` says what becomes of a request meanwhile: ``"skip"`` answers ``None``; ``"join"`` answers a handle on the
    execution there is; ``"replace"`` asks that one to stop and starts another, which may begin before the old one has
    undone what it did.

        syncs = app.single(sync, mode="join")
        handle = await syncs.at("acme").start()
    """
    if mode not in {each.value for each in Mode}:
        raise ConfigurationError(f"mode is 'skip', 'join' or 'replace', not {mode!r}")
    actor = hidden_starter(app, Singleton, "single", name, _workflow(workflow, "single"), mode=Mode(mode))
    return Starts(actor, workflow.signature.bind, handle_if_any(workflow))


def throttle(
    app: Declares, workflow: Workflow[P, R], /, *, every: Duration, name: str | None = None
) -> Starts[P, Handle[R] | None]:
    """Start a workflow at most once in ``every`` for a key. Requests that come sooner answer ``None``: nothing starts.

    To delay them instead, give the workflow a queue with a rate.

        reports = app.throttle(report, every="10m")
        handle = await reports.at("acme").start()
    """
    every_ms = milliseconds(every)
    if every_ms <= 0:
        raise ConfigurationError(f"every is longer than nothing, not {every!r}")
    actor = hidden_starter(app, Throttler, "throttle", name, _workflow(workflow, "throttle"), every_ms=every_ms)
    return Starts(actor, workflow.signature.bind, handle_if_any(workflow))


def _workflow(given: Any, pattern: str) -> Workflow[..., Any]:
    if not isinstance(given, Workflow):
        raise ConfigurationError(f"app.{pattern} starts a workflow, and was given {told(given)}")
    return cast("Workflow[..., Any]", given)


def _positive(what: str, duration: Duration) -> float:
    found = seconds(duration)
    if found <= 0:
        raise ConfigurationError(f"{what} is longer than nothing, not {duration!r}")
    return found
