"""What ended an execution badly: which entries of its journal a retry has to take back.

An error is known by its own identity, not by its text: the body is replayed, and each error that it is given is
remembered with the operation it came from. So an error that was kept and raised later, wrapped or put into a group, is
told from another one that says the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.errors import StepTimeout
from holdfast.replay.entries import TIMER, Cancelled, Done, Entry, Failed, Received
from holdfast.replay.requests import Raised
from holdfast.workflows.record import CANCELLED, COMPENSATION_FAILED, TIMED_OUT, describe_partition
from holdfast.workflows.renewed_callbacks import failures_in
from holdfast.workflows.replay import looked_into
from holdfast.workflows.undone import Undone, first_undone, is_undo

if TYPE_CHECKING:
    from holdfast.failure import ErrorRecord
    from holdfast.registrations import Registrations
    from holdfast.workflows.history import Recorded


class Failure(Struct, frozen=True):
    """What ended an execution: the first entry of it, and the operations that are to be tried again.

    ``place`` is behind the last entry, and ``ops`` is empty, if the body failed by itself.
    """

    place: int
    ops: tuple[str, ...] = ()


def failure_of(recorded: Recorded, registry: Registrations) -> Failure:
    """What ended the execution. Raises ``Undone`` if it has undone its work since."""
    entries, status = recorded.entries, recorded.head.status
    match status:
        case _ if status == COMPENSATION_FAILED and (undos := _failed_undos(entries)):
            return _from(entries, undos)
        case _ if status in (CANCELLED, TIMED_OUT):
            found = Failure(_cancelled(recorded, registry, timed_out=status == TIMED_OUT))
        case _:
            found = _failed(recorded, registry)
    _refuse_undone(recorded, found.place, registry)
    return found


def _failed_undos(entries: Sequence[Entry]) -> list[str]:
    """The undos that gave up; none if it was those of a child."""
    return [each.op for each in entries if isinstance(each, Failed) and is_undo(each.op)]


def _from(entries: Sequence[Entry], ops: Sequence[str]) -> Failure:
    """The failure that consists of these operations."""
    places = (n for n, each in enumerate(entries) if _is_of(each, ops))
    return Failure(min(places, default=len(entries)), tuple(ops))


def _is_of(entry: Entry, ops: Sequence[str]) -> bool:
    match entry:
        case Done(op=id) | Failed(op=id) | Received(id=id):
            return id in ops
        case _:
            return False


def _cancelled(recorded: Recorded, registry: Registrations, *, timed_out: bool) -> int:
    """Where the request stands that ended the body. Those that came while it cleaned up go with it.

    Without the code of the workflow it is the last one that is taken for it.
    """
    entries, got = recorded.entries, None
    places = [n for n, each in enumerate(entries) if isinstance(each, Cancelled) and each.timed_out == timed_out]
    if len(places) > 1 and recorded.record.workflow in registry.workflows:
        workflow = registry.workflow(recorded.record.workflow)
        with looked_into(recorded, entries, workflow, registry.errors.rebuild) as activation:
            activation.begin()
            got = activation.main.cancelled
    return next((n for n in places if entries[n] is got), places[-1] if places else len(entries))


def _refuse_undone(recorded: Recorded, place: int, registry: Registrations) -> None:
    outcomes = [each for each in recorded.entries if isinstance(each, (Done, Failed))]
    behind = recorded.entries[place:] if place < len(recorded.entries) else outcomes[-1:]
    undone = [each.op for each in behind if isinstance(each, Done) and is_undo(each.op)]
    if undone:
        first = first_undone(recorded, registry)
        fork = "" if first is None else f", or fork this one before {first!r}"
        raise Undone(
            f"{describe_partition(recorded.head.partition)} was compensated ({', '.join(undone)}): its finished "
            f"steps no longer hold. Start a new execution{fork}"
        )


# ── Whose errors they are ───────────────────────────────────────────────────────────────────────────────────────────


def _failed(recorded: Recorded, registry: Registrations) -> Failure:
    entries = recorded.entries
    ops = _raised(recorded, registry)
    if ops is None:  # the code has changed since, and does not fail like this any more
        ops = _by_text(entries, recorded.record.error)
    if not ops:
        return Failure(len(entries))
    found = _from(entries, ops)
    return Failure(found.place, (*ops, *_failed_with(recorded, found, registry)))


def _raised(recorded: Recorded, registry: Registrations) -> list[str] | None:
    """The operations whose errors the body has raised in the end; ``None`` if it does not end so with today's code."""
    record, made = recorded.record, dict[int, tuple[BaseException, str]]()
    workflow = registry.workflow(record.workflow)
    sources = {id(each.error): each.op for each in recorded.entries if isinstance(each, Failed)}
    answers = failures_in(recorded.entries) if workflow.renews_callbacks else []

    def rebuild(error: ErrorRecord) -> Exception:
        rebuilt = registry.errors.rebuild(error)
        answered = (id for told, id in answers if told == error)
        source = sources.get(id(error)) or next(answered, None)
        if source is not None:
            made[id(rebuilt)] = rebuilt, source
        return rebuilt

    with looked_into(recorded, recorded.entries, workflow, rebuild) as activation:
        activation.begin()
        match activation.outcome:
            case Raised(error) if activation.broken is None and _says(error, record.error):
                sources_found = [made[id(each)][1] for each in _origins(error, made) if id(each) in made]
                if not sources_found and any(_is_late(each) for each in _origins(error, made)):
                    return _last_timer(recorded.entries)
                return list(dict.fromkeys(sources_found))
            case _:
                return None


def _says(error: BaseException, recorded: ErrorRecord | None) -> bool:
    return recorded is not None and recorded.type.rpartition(".")[2] == type(error).__name__


def _origins(error: BaseException, made: dict[int, Any]) -> Iterator[BaseException]:
    """Where an error comes from: itself if it came from an operation, or the last of those that led to it."""
    if id(error) in made:
        yield error
        return
    others = _parts(error)
    led_to = error.__cause__ if error.__cause__ is not None or error.__suppress_context__ else error.__context__
    if led_to is not None:
        others.append(led_to)
    if not others or _is_late(error):
        yield error
        return
    for other in others:
        yield from _origins(other, made)


def _parts(error: BaseException) -> list[BaseException]:
    group: Any = error
    return list(group.exceptions) if isinstance(error, BaseExceptionGroup) else []


def _is_late(error: BaseException) -> bool:
    return isinstance(error, (TimeoutError, StepTimeout))


def _last_timer(entries: Sequence[Entry]) -> list[str]:
    return [each.op for each in entries if isinstance(each, Done) and each.kind == TIMER][-1:]


def _by_text(entries: Sequence[Entry], error: ErrorRecord | None) -> list[str]:
    """The last operation that failed with one of these errors, if one did."""
    told = () if error is None else [(each.type, each.message) for each in error.lineage()]
    found = [each.op for each in entries if isinstance(each, Failed) and (each.error.type, each.error.message) in told]
    return found[-1:]


def _failed_with(recorded: Recorded, found: Failure, registry: Registrations) -> list[str]:
    """The operations that failed together with the first one, for the same reason. They are retried with it."""
    entries, first = recorded.entries, recorded.entries[found.place]
    if not isinstance(first, Failed):
        return []
    cause = _cause_of(first.error)
    alike = [
        each.op
        for each in entries[found.place + 1 :]
        if isinstance(each, Failed) and _cause_of(each.error) == cause and each.op not in found.ops
    ]
    if not alike:
        return []
    workflow = registry.workflow(recorded.record.workflow)
    with looked_into(recorded, entries[: found.place], workflow, registry.errors.rebuild) as activation:
        activation.begin()
        return [op for op in alike if op in activation.requested]


def _cause_of(error: ErrorRecord) -> tuple[str, str]:
    """What it comes from in the end: the failures of several children name the children, and may have one cause."""
    *_, cause = error.lineage()
    return cause.type, cause.message
