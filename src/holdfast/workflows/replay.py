"""Building an execution's activation from what is recorded: for going on with it, looking into it, or testing it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.codec.parameters import INPUT_LIMIT_BYTES
from holdfast.errors import HoldfastError
from holdfast.replay.activation import Activation
from holdfast.replay.entries import Entry, Marked
from holdfast.replay.loop import running_activation
from holdfast.workflows.begin import until_due
from holdfast.workflows.record import seed_of
from holdfast.workflows.scope import BodyScope
from holdfast.workflows.versioning import CODE_MARK

if TYPE_CHECKING:
    from holdfast.failure import ErrorRecord
    from holdfast.workflows.declared import DeclaredWorkflow
    from holdfast.workflows.history import Recorded
    from holdfast.workflows.record import ExecutionRecord


NO_MARKS: Final[frozenset[str]] = frozenset()


def activation_of(  # noqa: PLR0913 - each named by its caller
    record: ExecutionRecord,
    workflow: DeclaredWorkflow,
    entries: Sequence[Entry],
    rebuild: Callable[[ErrorRecord], Exception],
    *,
    shared: bytes = b"",
    looking: bool = False,
    untouched: bool = False,
    limit_bytes: int = INPUT_LIMIT_BYTES,
    make: type[Activation] = Activation,
) -> Activation:
    """The activation of one run, not yet begun. Replay is strict if only this very code has worked on it (G13).

    ``entries`` are all that is recorded, notes included. ``shared``: see ``Recorded``. ``looking``: it serves a query,
    and nothing will come of it. ``untouched``: no process has worked on the execution before. ``limit_bytes``: how
    large the input of a new run may be. ``make``: a debugger has an activation of its own.
    """
    mark = CODE_MARK + workflow.version
    marks = _code_marks(entries) if entries else NO_MARKS
    activation = make(
        partial(_body, workflow, record),
        recorded=(*record.carried, *entries),
        carried=len(record.carried),
        started_at=record.run_at,
        seed=seed_of(record),
        strict=record.version == workflow.version and marks <= {mark},
        rebuild=rebuild,
        untouched=untouched,
        steps=workflow.steps,
        names_timers=bool(record.nonce),
    )
    activation.repeats = bool(entries)
    activation.looking = looking
    activation.names_by_item = bool(record.nonce)
    if record.version != workflow.version and mark not in marks:
        activation.mark(mark)
    activation.context = BodyScope(record, workflow.signature, activation, shared, limit_bytes=limit_bytes)
    return activation


def _code_marks(entries: Sequence[Entry]) -> frozenset[str]:
    return frozenset(entry.id for entry in entries if isinstance(entry, Marked) and entry.id.startswith(CODE_MARK))


@contextmanager
def looked_into(
    recorded: Recorded,
    entries: Sequence[Entry],
    workflow: DeclaredWorkflow,
    rebuild: Callable[[ErrorRecord], Exception],
    make: type[Activation] = Activation,
) -> Generator[Activation]:
    """The body behind these entries, with today's code, to be begun. It is evicted at the end: nothing comes of it."""
    activation = activation_of(
        recorded.record, workflow, entries, rebuild, shared=recorded.shared, looking=True, make=make
    )
    try:
        yield activation
    finally:
        activation.evict()


def _body(workflow: DeclaredWorkflow, record: ExecutionRecord) -> Coroutine[Any, Any, Any]:
    """The workflow's own coroutine where nothing comes before it: those who wait may wait for long, and be many."""
    if record.starts_at or not workflow.is_plain:
        return _later(workflow, record)
    try:
        return _called(workflow, record)
    except Exception as unfit:  # noqa: BLE001 - whatever a decoder of the user's raises, the body does
        return _raised(unfit)


async def _later(workflow: DeclaredWorkflow, record: ExecutionRecord) -> Any:
    if record.starts_at:
        await until_due(record.starts_at)
    return await _called(workflow, record)


async def _raised(unfit: Exception) -> Any:
    raise unfit


def _called(workflow: DeclaredWorkflow, record: ExecutionRecord) -> Coroutine[Any, Any, Any]:
    """The workflow's coroutine. It alone keeps the arguments."""
    try:
        args, kwargs = workflow.signature.unbind_steady(bytes(record.input))
    except HoldfastError as unfit:
        raise running_activation().break_off(str(unfit)) from unfit
    called: Coroutine[Any, Any, Any] = workflow.function(*args, **kwargs)
    return called
