"""The verdict: every promise, checked against everything that is left. One generator of complaints per promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

from tests.torture.evidence import Evidence, Execution
from tests.torture.expect import complaints, id_of, kind_of
from tests.torture.shop import app

from holdfast.coordination.inbox import USED
from holdfast.failure import describe
from holdfast.replay.entries import Done, Failed, standing
from holdfast.replay.requests import Raised, Returned
from holdfast.workflows.record import ENDED
from holdfast.workflows.replay import activation_of

Check = Callable[[Evidence], Iterator[str]]

MOST_PER_CHECK: Final = 20


def judge(evidence: Evidence) -> dict[str, list[str]]:
    """All complaints, by check."""
    found = {check.__name__: list(check(evidence)) for check in CHECKS}
    return {name: each for name, each in found.items() if each}


# ── Nothing is lost ─────────────────────────────────────────────────────────────────────────────────────────────────


def every_accepted_execution_ended_right(evidence: Evidence) -> Iterator[str]:
    """G1: right status, right result, exactly the right effects."""
    effects = evidence.effects_of()
    for id, kind, number in evidence.accepted:
        execution = evidence.executions.get(f"wf#{kind}#{id}")
        if execution is None:
            yield f"{id} was accepted, and is not there"
        else:
            yield from complaints(
                number, execution.status, execution.result(), execution.error_type(), effects.get(id, {})
            )


def every_execution_ended(evidence: Evidence) -> Iterator[str]:
    """Children and detached ones too."""
    for each in evidence.executions.values():
        if each.status not in ENDED:
            yield f"{each.partition} is {each.status}"
        if each.record.workflow == "waiter" and each.status != "CANCELLED":
            yield f"{each.partition}, which nobody waits for, ended as {each.status}"


def nothing_is_left_lying_about(evidence: Evidence) -> Iterator[str]:
    """At rest: no leases, no due times, no waiting messages."""
    for each in evidence.executions.values():
        if each.owner is not None or each.lease_until is not None:
            yield f"{each.partition} is still leased by {each.owner}"
        if each.due_at is not None:
            yield f"{each.partition} has ended and is still due"
        if waiting := [message.sort for message in each.inbox if message.status != USED]:
            yield f"{each.partition} has unread messages: {waiting}"


def the_file_is_sound(evidence: Evidence) -> Iterator[str]:
    yield from (line for line in evidence.integrity if line != "ok")


# ── Nothing happens twice ───────────────────────────────────────────────────────────────────────────────────────────


def every_effect_was_accepted_once(evidence: Evidence) -> Iterator[str]:
    """G10: two keys for one effect would be two effects."""
    for (execution, label), times in Counter((each.execution, each.label) for each in evidence.effects).items():
        if times > 1:
            yield f"{execution}: {label!r} was accepted {times} times, under different keys"


def at_most_once_was_at_most_once(evidence: Evidence) -> Iterator[str]:
    query = "SELECT execution, count(*) FROM attempts WHERE label = 'launch' GROUP BY key HAVING count(*) > 1"
    for execution, times in evidence.ledger.read(query):
        yield f"{execution} was launched {times} times"


def transactions_happened_exactly_once(evidence: Evidence) -> Iterator[str]:
    """Effects inside the store's own transaction (G10): no key protects these."""
    moved = Counter(execution for execution, _ in evidence.moves)
    results = {f"transfer-{number}" for _, kind, number in evidence.accepted if kind == "transfer"}
    for execution in moved.keys() | results:
        if moved[execution] != 1:
            yield f"{execution} moved {moved[execution]} times"
    for execution, number in evidence.moves:
        found = evidence.executions.get(f"wf#transfer#{execution}")
        result = None if found is None else found.result()
        if not isinstance(result, list) or result[0] != f"move={number}":
            yield f"{execution} made move {number}, its result is {result}"


def undos_came_in_reverse(evidence: Evidence) -> Iterator[str]:
    for execution, effects in groupby(sorted(evidence.effects, key=lambda each: each.execution), lambda e: e.execution):
        order = [each.label for each in sorted(effects) if each.label.startswith("undo")]
        if order not in ([], ["undo charge", "undo reserve seat"]):
            yield f"{execution} was undone in the order {order}"


def callbacks_were_answered_once(evidence: Evidence) -> Iterator[str]:
    answers: dict[str, list[str]] = {}
    # A repeat of the answer that was taken is taken too (G11).
    distinct = "SELECT DISTINCT execution, said FROM answers WHERE outcome = 'taken'"
    for execution, said in evidence.ledger.read(distinct):
        answers.setdefault(execution, []).append(said)
    for id, said in answers.items():
        result = evidence.executions[f"wf#approval#{id}"].result()
        if len(said) > 1:
            yield f"{id}: {len(said)} answers were taken"
        elif not isinstance(result, list) or result[4] != said[0]:
            yield f"{id}: the answer taken was {said[0]!r}, the result is {result}"


# ── Journals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def journals_are_linear(evidence: Evidence) -> Iterator[str]:
    """G3: positions without gaps, epochs that never go back, one writer per epoch.

    Of a run that is over, the next one deletes all but the fences.
    """
    for each in evidence.executions.values():
        writers: dict[int, set[str | None]] = {}
        for run, segments in groupby(each.segments, lambda segment: segment.run):
            positions = [segment.position for segment in segments]
            if run == each.record.run and positions != list(range(len(positions))):
                yield f"{each.partition} run {run} has segments at {positions}"
        for before, after in pairwise(each.segments):
            if after.epoch < before.epoch:
                yield f"{each.partition}: epoch {before.epoch} is followed by {after.epoch}"
        for segment in each.segments:
            writers.setdefault(segment.epoch, set()).add(segment.owner)
            if segment.epoch > each.epoch:
                yield f"{each.partition}: a segment of epoch {segment.epoch} under a head of {each.epoch}"
        for epoch, owners in writers.items():
            if len(owners) > 1:
                yield f"{each.partition}: epoch {epoch} has several writers: {sorted(map(str, owners))}"


def nothing_was_completed_twice(evidence: Evidence) -> Iterator[str]:
    """G2: one completion per operation and run."""
    for each in evidence.executions.values():
        for run in {segment.run for segment in each.segments} | {each.record.run}:
            entries = [entry for segment in each.segments if segment.run == run for entry in segment.entries]
            entries += each.record.tail if run == each.record.run else []
            completed = Counter(entry.op for entry in entries if isinstance(entry, Done | Failed))
            if twice := [op for op, times in completed.items() if times > 1]:
                yield f"{each.partition} run {run} completed twice: {twice}"


def journals_replay_to_their_results(evidence: Evidence) -> Iterator[str]:
    """G2, G13: the code, fed with the journal, comes to the recorded end."""
    for each in evidence.executions.values():
        if each.status in {"COMPLETED", "FAILED", "CANCELLED"}:
            yield from _replay_complaints(each)


def _replay_complaints(each: Execution) -> Iterator[str]:
    workflow = app.registry.workflow(each.record.workflow)
    rebuild = app.registry.errors.rebuild
    activation = activation_of(each.record, workflow, standing(each.entries()), rebuild)
    activation.begin()
    outcome = activation.outcome
    match outcome:
        case _ if activation.broken is not None:
            yield f"{each.partition} does not replay: {activation.broken}"
        case Returned(value=value):
            if value != each.result():
                yield f"{each.partition} replays to {value!r}, recorded is {each.result()!r}"
        case Raised(error=error):
            told = describe(error)
            # A cancelled body does not know why; its record does.
            if told.type != each.error_type() or (each.status == "FAILED" and told.message != each.error_message()):
                yield f"{each.partition} replays to {error!r}, recorded is {each.error_type()}: {each.error_message()}"
        case _:
            yield f"{each.partition} has ended, but its replay waits for {sorted(activation.requested)}"
    activation.evict()


# ── What was seen while it ran ──────────────────────────────────────────────────────────────────────────────────────


def no_promise_was_seen_broken(evidence: Evidence) -> Iterator[str]:
    for what, text in evidence.ledger.read("SELECT what, text FROM violations"):
        yield f"{what}: {text}"


def ids_and_inputs_belong_together(evidence: Evidence) -> Iterator[str]:
    """G11: the other inputs were refused, and the ledger has nothing of them."""
    for id, kind, number in evidence.accepted:
        if (id, kind) != (id_of(number), kind_of(number)):
            yield f"{id} was accepted as {kind} {number}"
    if not evidence.ledger.read("SELECT 1 FROM mismatches LIMIT 1"):
        yield "nobody tried another input under an id that was taken: nothing was proven"


CHECKS: Final[tuple[Check, ...]] = (
    every_accepted_execution_ended_right,
    every_execution_ended,
    nothing_is_left_lying_about,
    the_file_is_sound,
    every_effect_was_accepted_once,
    at_most_once_was_at_most_once,
    transactions_happened_exactly_once,
    undos_came_in_reverse,
    callbacks_were_answered_once,
    journals_are_linear,
    nothing_was_completed_twice,
    journals_replay_to_their_results,
    no_promise_was_seen_broken,
    ids_and_inputs_belong_together,
)


def log_complaints(folder: Path) -> list[str]:
    """Tracebacks and errors in what the processes wrote to their standard error."""
    found: list[str] = []
    for path in sorted((folder / "stderr").iterdir()):
        text = path.read_text(errors="replace")
        if any(sign in text for sign in ("Traceback", "ERROR", "CRITICAL", "never retrieved")):
            found.append(f"{path.name}: {text[-1_500:]}")
    return found
