"""What sagas have undone: the finished steps that no longer hold, so that no execution continues from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.errors import InvalidState
from holdfast.replay.entries import Aside, Done, Entry, Failed, Pending, Tried
from holdfast.workflows.record import describe_partition
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.registrations import Registrations
    from holdfast.workflows.history import Recorded

UNDO_SUFFIX: Final = ".undo"


class Undone(InvalidState):
    """The execution has undone its work, so there is nothing to go on from."""


def is_undo(op: str) -> bool:
    """Whether an operation is the undo of a step, which may be called by a name of the user's.

    >>> is_undo("main/charge.undo#0"), is_undo("charge:17.undo"), is_undo("charge#0")
    (True, True, False)
    """
    return op.endswith(UNDO_SUFFIX) or _name(op).endswith(UNDO_SUFFIX)


def refuse_undone(recorded: Recorded, registry: Registrations, keep: int) -> None:
    """Raise ``Undone`` if one of the first ``keep`` entries is of a step that was undone by what comes behind them."""
    entries, execution = recorded.entries, describe_partition(recorded.head.partition)
    if _begun(entries).keys() <= _outcomes(entries[:keep]).keys():
        return
    undone = _undone(recorded, registry)
    if lost := _lost(entries, undone, keep):
        first = _first_of(entries, undone, lost)
        raise Undone(
            f"a saga of {execution} has undone, or is undoing, {', '.join(lost)}, which this fork would keep. "
            f"Start a new execution, or fork before {first!r}"
        )


def first_undone(recorded: Recorded, registry: Registrations) -> str | None:
    """The operation before which a fork keeps nothing that was undone, if it is known."""
    entries = recorded.entries
    undone = _undone(recorded, registry)
    steps = set(undone.values())
    lost = [op for op in _outcomes(entries) if op in steps]
    return _first_of(entries, undone, lost) if lost else None


def _first_of(entries: Sequence[Entry], undone: dict[str, str], lost: list[str]) -> str:
    """The first of these steps; or of those whose undos are left out if the journal is cut before that."""
    places = _outcomes(entries)
    while earlier := _lost(entries, undone, places[lost[0]]):
        lost = earlier
    return lost[0]


def _lost(entries: Sequence[Entry], undone: dict[str, str], keep: int) -> list[str]:
    """The steps whose outcomes are among the first entries, and their undos are not."""
    kept = _outcomes(entries[:keep])
    without = {step for undo, step in undone.items() if undo not in kept}
    return [op for op in kept if op in without]


def _outcomes(entries: Iterable[Entry]) -> dict[str, int]:
    """Where the operations have ended."""
    return {op: place for place, each in enumerate(entries) if (op := _ended(each)) is not None}


def _ended(entry: Entry) -> str | None:
    match entry:
        case Done(op=op) | Failed(op=op) | Aside(outcome=Done(op=op) | Failed(op=op)):
            return op
        case _:
            return None


def _begun(entries: Sequence[Entry]) -> dict[str, int]:
    """The undos that have begun, and where they are seen first."""
    begun: dict[str, int] = {}
    for place, entry in enumerate(entries):
        for op in filter(is_undo, _ops(entry)):
            begun.setdefault(op, place)
    return begun


def _ops(entry: Entry) -> Iterable[str]:
    match entry:
        case Pending(operations=operations):
            return operations
        case Tried(op=op):
            return (op,)
        case _:
            ended = _ended(entry)
            return () if ended is None else (ended,)


# ── Which step an undo is of ────────────────────────────────────────────────────────────────────────────────────────


def _undone(recorded: Recorded, registry: Registrations) -> dict[str, str]:
    """The step that each undo is of: as the body says, or as its name says where the code has changed since.

    A step whose undo gave up holds.
    """
    entries, told = recorded.entries, _told_by_the_body(recorded, registry)
    undone: dict[str, str] = {}
    for undo, place in _begun(entries).items():
        step = told.get(undo) or _guessed(entries[:place], undo, {*told.values(), *undone.values()})
        if step is not None:
            undone[undo] = step
    gave_up = {each.op for each in entries if isinstance(each, Failed)}
    return {undo: step for undo, step in undone.items() if undo not in gave_up}


def _told_by_the_body(recorded: Recorded, registry: Registrations) -> dict[str, str]:
    record, told = recorded.record, dict[str, str]()
    workflow = registry.workflows.get(record.workflow)
    if workflow is None:
        return told
    rebuild = registry.errors.rebuild
    with looked_into(recorded, recorded.entries, workflow, rebuild) as activation:
        activation.context = replace(activation.context, undone=told)
        activation.begin()
    return told


def _guessed(before: Sequence[Entry], undo: str, others: set[str]) -> str | None:
    """The latest step of that name that was done in the task of the block, or in one that it has started."""
    done = (each.op for each in reversed(before) if isinstance(each, Done) and each.op not in others)
    return next((op for op in done if _is_of(undo, op)), None)


def _is_of(undo: str, step: str) -> bool:
    if undo.endswith(UNDO_SUFFIX):
        return undo.removesuffix(UNDO_SUFFIX) == step
    block = "/".join(undo.split("/")[:-2])
    return step.startswith(block and f"{block}/") and f"{_name(step)}{UNDO_SUFFIX}" == _name(undo)


def _name(op: str) -> str:
    return op.rpartition("/")[2].rpartition("#")[0]
