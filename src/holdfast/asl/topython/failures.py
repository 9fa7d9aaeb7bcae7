"""Retriers as retry policies, and catchers as ``except`` clauses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.asl.definition import Catcher, Fail, Map, Parallel, Processor, Retrier
from holdfast.asl.definition.states import Working
from holdfast.asl.errors import ALL, HEARTBEAT_TIMEOUT, RUNTIME, TASK_FAILED, TIMEOUT
from holdfast.asl.retrying import FULL, LONGEST_DELAY_SECONDS, delay_seconds
from holdfast.asl.topython.code import Code, call, flat
from holdfast.asl.topython.parts import Parts, Pointer

USUAL_BACKOFF: Final = 2.0
USUAL_MAX_DELAY_SECONDS: Final = 60.0
"""What ``hf.Retry`` has if nothing is said."""

ANY: Final = "Exception"
LATE: Final = "hf.StepTimeout"
_UNSEEN: Final = "this error of the interpreter does not come up in Python under this name"


class Clause(Struct, frozen=True):
    """An ``except`` clause. Without a catcher it raises the error again."""

    classes: tuple[str, ...]
    catcher: Catcher | None = None
    number: int = 0


def classes_of(names: Sequence[str], parts: Parts, pointer: Pointer) -> tuple[str, ...]:
    """The classes that names of errors stand for. A name that no error can have here is remarked on."""
    if takes_all(names):
        return (ANY,)
    return tuple(dict.fromkeys(each for name in names for each in _class_of(name, parts, pointer)))


def takes_all(names: Sequence[str]) -> bool:
    """Whether names of errors stand for all of them, but for time-outs perhaps."""
    return ALL in names or TASK_FAILED in names


def _class_of(name: str, parts: Parts, pointer: Pointer) -> Iterator[str]:
    if name == TIMEOUT:
        yield LATE
    elif name == HEARTBEAT_TIMEOUT:
        parts.remark(pointer, name, "a time-out is caught in its place: one class stands for both")
        yield LATE
    elif name.startswith("States."):
        if name != RUNTIME:  # nothing catches that one in the machine either
            parts.remark(pointer, name, _UNSEEN)
    else:
        yield parts.error(name)


# ── Retry ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def own_policy(retriers: Sequence[Retrier], parts: Parts, pointer: Pointer) -> Code | None:
    """The policy of a step that does what the retriers do; ``None`` if they count apart, which one policy cannot."""
    trying = [each for each in retriers if each.max_attempts]
    if not trying:
        return "ONCE"
    if len(trying) > 1:
        return None
    before = retriers[: retriers.index(trying[0])]
    never = [name for number, each in enumerate(before) for name in _named(each, number, parts, pointer)]
    return policy(trying[0], parts, (*pointer, "Retry", len(before)), never)


def _named(retrier: Retrier, number: int, parts: Parts, pointer: Pointer) -> tuple[str, ...]:
    return classes_of(retrier.error_equals, parts, (*pointer, "Retry", number, "ErrorEquals"))


def policy(retrier: Retrier, parts: Parts, pointer: Pointer, never: Sequence[str] = ()) -> Code:
    """``hf.Retry`` for one retrier. ``never`` are the classes that another one before it does not try again."""
    classes = classes_of(retrier.error_equals, parts, (*pointer, "ErrorEquals"))
    given = [f"max_attempts={retrier.max_attempts + 1}", f"only={_tuple(classes)}"]
    if retrier.max_attempts:
        given[1:1] = list(_delays(retrier))
    never = [*never, LATE] if TASK_FAILED in retrier.error_equals and ALL not in retrier.error_equals else never
    if never:
        given.append(f"when=lambda error: not isinstance(error, {never[0] if len(never) == 1 else _tuple(never)})")
    return call("hf.Retry", *given)


def _delays(retrier: Retrier) -> Iterator[str]:
    yield f"initial={retrier.interval_seconds}"
    if retrier.backoff_rate != USUAL_BACKOFF:
        yield f"backoff={retrier.backoff_rate}"
    longest = delay_seconds(Retrier([], retrier.interval_seconds, 0, retrier.backoff_rate), retrier.max_attempts - 1)
    most = min(longest, LONGEST_DELAY_SECONDS if retrier.max_delay_seconds is None else retrier.max_delay_seconds)
    if most != USUAL_MAX_DELAY_SECONDS and (most != longest or longest > USUAL_MAX_DELAY_SECONDS):
        yield f"max_delay={int(most) if most == int(most) else most}"
    yield f"jitter=hf.Jitter.{'FULL' if retrier.jitter_strategy == FULL else 'NONE'}"


def _tuple(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def retried(work: Code, retriers: Sequence[Retrier], parts: Parts, pointer: Pointer, *never: str) -> Code:
    """Work that several policies repeat, each with a count of its own. None repeats it after an error of ``never``."""
    policies = [
        policy(each, parts, (*pointer, "Retry", number), never if takes_all(each.error_equals) else ())
        for number, each in enumerate(retriers)
    ]
    return call(parts.helper("retried"), f"lambda: {flat(work)}", *policies)


# ── Catch ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def clauses(catchers: Sequence[Catcher], parts: Parts, pointer: Pointer) -> Iterator[Clause]:
    """The clauses for the catchers, in their order. One for everything but time-outs has one for these before it."""
    seen: set[str] = set()
    for number, catcher in enumerate(catchers):
        names = catcher.error_equals
        classes = tuple(
            each for each in classes_of(names, parts, (*pointer, "Catch", number, "ErrorEquals")) if each not in seen
        )
        if TASK_FAILED in names and not {ALL, TIMEOUT} & {*names} and LATE not in seen:
            yield _late(catchers, number)
        if classes:
            yield Clause(classes, catcher, number)
        seen |= {*classes}
        if ANY in classes:
            return


def _late(catchers: Sequence[Catcher], after: int) -> Clause:
    """What becomes of a time-out that the catcher at ``after`` does not take."""
    for number, catcher in enumerate(catchers[after + 1 :], after + 1):
        if {ALL, TIMEOUT, HEARTBEAT_TIMEOUT} & {*catcher.error_equals}:
            return Clause((LATE,), catcher, number)
    return Clause((LATE,))


def computes_errors(state: Working) -> bool:
    """Whether a Fail within a state names its error by an expression: no class can be caught for it."""
    return any(
        isinstance(each, Fail) and (each.error_path is not None or (each.jsonata and "{%" in (each.error or "")))
        for processor in processors(state)
        for each in _all_states(processor)
    )


def processors(state: Any) -> list[Processor]:
    """The machines within a state."""
    match state:
        case Parallel(branches=branches):
            return branches
        case Map(processor=Processor() as inner):
            return [inner]
        case _:
            return []


def _all_states(processor: Processor) -> Iterator[Any]:
    for state in processor.states.values():
        yield state
        for inner in processors(state):
            yield from _all_states(inner)
