"""States with work, as statements: Task, Parallel and Map, with their retriers and catchers."""

from __future__ import annotations

from typing import Final, cast

from msgspec import UNSET

from holdfast.asl.definition import Map, Parallel, Processor, Task
from holdfast.asl.definition.states import Working
from holdfast.asl.resources import WAIT_FOR_TASK_TOKEN, resource_of
from holdfast.asl.topython.code import (
    Body,
    Code,
    Compound,
    Comprehension,
    Line,
    Prefixed,
    Statement,
    Suite,
    call,
    ends,
    flat,
    joined,
)
from holdfast.asl.topython.expressions import Context, Scope
from holdfast.asl.topython.failures import (
    ANY,
    Clause,
    clauses,
    computes_errors,
    own_policy,
    processors,
    retried,
    takes_all,
)
from holdfast.asl.topython.names import snake
from holdfast.asl.topython.parts import StepOf
from holdfast.asl.topython.place import (
    CAUGHT,
    Place,
    effective,
    given,
    is_computed,
    left,
    mentions,
    taken,
)

BY_CALLBACK: Final = "use hf.callback: the step hands on its token, and the body awaits the answer"
UNMAPPED: Final = {
    "item_reader": ("ItemReader", "read the items in a step"),
    "item_batcher": ("ItemBatcher", "make batches of the items in the body"),
    "result_writer": ("ResultWriter", "write the results in a step"),
    "tolerated_failure_count": ("ToleratedFailureCount", "see tolerated_failures of hf.map"),
    "tolerated_failure_count_path": ("ToleratedFailureCountPath", "see tolerated_failures of hf.map"),
    "tolerated_failure_percentage": ("ToleratedFailurePercentage", "see tolerated_failure_percent of hf.map"),
    "tolerated_failure_percentage_path": ("ToleratedFailurePercentagePath", "see tolerated_failure_percent of hf.map"),
}
"""Fields of a Map that are left over, and what to do about them."""

TRY: Final = Line("try")
ITEM: Final[Context] = {("Map", "Item", "Value"): "item", ("Map", "Item", "Index"): "index"}


def worked(at: Place) -> Body:
    """A Task: a call of its step."""
    state, begin = cast("Task", at.state), list[Statement]()
    if state.credentials is not UNSET:
        begin.append(at.note("Credentials", state.credentials, "the step has the rights of its process"))
    if resource_of(state.resource).pattern == WAIT_FOR_TASK_TOKEN:
        begin.append(at.note("Resource", state.resource, BY_CALLBACK))
        return (*begin, *_attempted(at, at.lacking(state.resource)))
    limits = tuple(_limits(at, begin))
    own = own_policy(state.retry, at.parts, at.pointer)
    resource = resource_of(state.resource)
    step = at.parts.step(StepOf(state.resource, own or "ONCE", limits), snake(resource.name), state.name)
    argument = given(at, effective(at))
    if is_computed(argument) and (state.catch or own is None):
        begin.append(Line("given = ", argument))
        argument = "given"
    work: Code = call(step, argument)
    if own is None:
        work = retried(work, state.retry, at.parts, at.pointer)
    return (*begin, *_attempted(at, Prefixed("await ", work)))


def _limits(at: Place, notes: list[Statement]) -> list[str]:
    state, found = cast("Task", at.state), list[str]()
    for name, field in (("timeout", "TimeoutSeconds"), ("heartbeat", "HeartbeatSeconds")):
        seconds, path = getattr(state, f"{name}_seconds"), getattr(state, f"{name}_seconds_path")
        if isinstance(seconds, int | float):
            found.append(f"{name}={seconds}")
        elif seconds is not None or path is not None:
            written = f"{field}Path" if path is not None else field
            notes.append(at.note(written, path or seconds, "a step has the limit of its declaration"))
    return found


def branched(at: Place) -> Body:
    """A Parallel: a function for each branch, and all of them side by side."""
    state = cast("Parallel", at.state)
    functions, begin = list[str](), list[Statement]()
    for number, branch in enumerate(state.branches):
        name, body = at.frame(branch, branch.start_at, (*at.pointer, "Branches", number), at.scope)
        functions.append(name)
        begin.extend(body)
    argument = given(at, effective(at))
    if is_computed(argument) or not isinstance(argument, str):
        begin.append(Line("given = ", argument))
        argument = "given"
    work = call(at.parts.helper("together"), *(call(each, argument) for each in functions))
    return (*begin, *_attempted(at, Prefixed("await ", _again(at, work))))


def _again(at: Place, work: Code) -> Code:
    """Work that is code of the body too: what a wrong path raises in it is not retried."""
    if any(takes_all(each.error_equals) for each in at.state.retry):
        at.parts.helper("BROKEN")
    return retried(work, at.state.retry, at.parts, at.pointer, "BROKEN") if at.state.retry else work


def mapped(at: Place) -> Body:
    """A Map: a function for an item, and ``hf.map``."""
    state = cast("Map", at.state)
    processor = cast("Processor", state.processor)
    begin = list[Statement]()
    if processor.distributed:
        why = "the items run within the execution: hf.map of a workflow makes each one an execution of its own"
        begin.append(at.note("ItemProcessor/ProcessorConfig", {"Mode": "DISTRIBUTED"}, why))
    for field, (name, why) in UNMAPPED.items():
        if (written := getattr(state, field)) is not None:
            begin.append(at.note(name, written, why))
    inner = (*at.pointer, "ItemProcessor")
    function, body = at.frame(processor, f"{state.name} each", inner, at.scope)
    items = _items(at, effective(at))
    if flat(items) != "data" and (state.catch or state.retry or not isinstance(items, str)):
        begin.append(Line("items = ", items))
        items = "items"
    if state.item_reader is not None:
        items = at.lacking("ItemReader")
    work = _again(at, call("hf.map", function, items, *_concurrency(at)))
    return (*begin, *body, *_attempted(at, Prefixed("await ", work), "batch", "batch.succeeded"))


def _concurrency(at: Place) -> list[Code]:
    state = cast("Map", at.state)
    if state.max_concurrency_path is not None:
        limit = at.path(state.max_concurrency_path, "MaxConcurrencyPath", flat(effective(at)))
        return [f"concurrency={flat(limit)} or 64"]
    if isinstance(state.max_concurrency, str):
        return [f"concurrency={flat(at.value(state.max_concurrency, 'MaxConcurrency'))} or 64"]
    return [f"concurrency={state.max_concurrency}"] if state.max_concurrency else []


def _items(at: Place, root: Code) -> Code:
    """The items, each as its iteration gets it."""
    state = cast("Map", at.state)
    if state.jsonata:
        source: Code = "data" if state.items is UNSET else at.value(state.items, "Items")
    else:
        path = state.items_path
        source = root if path is UNSET or path is None or path == "$" else at.path(path, "ItemsPath", flat(root))
    if state.item_selector is UNSET:
        return source
    scope = Scope(at.scope.parts, flat(root), {**at.scope.context, **ITEM}, at.scope.variables)
    inside = Place(state, scope, at.pointer, at.goto, at.frame)
    if state.jsonata:
        element = inside.value(state.item_selector, "ItemSelector")
    else:
        element = inside.template(state.item_selector, "ItemSelector", flat(root))
    if mentions(element, "index"):
        return Comprehension(element, "for index, item in", call("enumerate", source))
    return Comprehension(element, f"for {'item' if mentions(element, 'item') else '_'} in", source)


# ── Around work ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _attempted(at: Place, work: Code, name: str = "result", result: str = "result") -> Body:
    """Work with its catchers, what becomes of its result, and how the machine goes on."""
    state = cast("Working", at.state)
    then = left(at, effective(at), result)
    used = any(mentions(each.code, name) for each in then if isinstance(each, Line))
    done = Line(f"{name} = " if used else "", work)
    after = (*then, *at.on())
    handlers = [_handler(at, each) for each in clauses(state.catch, at.parts, at.pointer)]
    if not handlers:
        return joined((done, *after))
    notes: Body = ()
    if computes_errors(state) and not all(ANY in each.error_equals for each in state.catch):
        why = "an error that is computed within is of no class, and is not caught by name"
        notes = (at.note("Catch", [each.error_equals for each in state.catch], why),)
    is_code = bool(processors(state)) or "not_converted(" in flat(work)
    if is_code and any(flat(head.head.code).startswith(ANY) for head in handlers):
        at.parts.helper("BROKEN")
        handlers.insert(0, Suite(Line("except ", "BROKEN"), (Line("raise"),)))
    after = joined(after)
    whole = (Suite(TRY, (done,)), *handlers)
    if all(ends(each.body) for each in handlers):
        return (*notes, Compound(whole), *after)
    return (*notes, Compound((*whole, *([Suite(Line("else"), after)] if after else []))))


def _handler(at: Place, clause: Clause) -> Suite:
    classes = clause.classes[0] if len(clause.classes) == 1 else f"({', '.join(clause.classes)})"
    if clause.catcher is None:
        return Suite(Line("except ", classes), (Line("raise"),))
    body = (*taken(at, clause.catcher, clause.number), *at.goto(clause.catcher.next))
    named = any(isinstance(each, Line) and CAUGHT in flat(each.code) for each in body)
    return Suite(Line("except ", f"{classes} as error" if named else classes), joined(body))
