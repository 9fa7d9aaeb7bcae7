"""The Map runs of a machine's distributed Maps, and their child executions: each is an execution of its own.

A Map run is a child of the execution that has the Map, and the execution of an item is a child of the Map run. Their
ids follow from the execution that has the Map, the state, its visit and the index of the item, so an item is started
once, whichever process dies or comes back late (G11). The journal of a Map run has an entry per item, and it
continues as new.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.asl.errors import DATA_LIMIT_EXCEEDED, RUNTIME, Error, StatesError
from holdfast.asl.events import History
from holdfast.asl.frames import Cursor
from holdfast.asl.machine import first_cursor, run_machine
from holdfast.asl.maps.outcomes import Outcome, failure_of, outcomes_at
from holdfast.asl.maps.writers import Results, written
from holdfast.asl.orders import ITEMS_OF_A_RUN, Child, MapCursor, MapOrder, items_of, maps_of
from holdfast.asl.progress import UPDATE, Progress, Update, concurrency_in_force
from holdfast.asl.quotas import EXPRESS_SECONDS
from holdfast.asl.together import Ended, Together
from holdfast.asl.workflow import StatesWorkflow, text_of
from holdfast.errors import ExecutionError, PayloadTooLarge, SerializationError
from holdfast.persist import sit_out
from holdfast.replay.naming import place
from holdfast.workflows.definition import Step, Workflow
from holdfast.workflows.operations.child import call_child
from holdfast.workflows.operations.live_state import query
from holdfast.workflows.operations.new_run import continue_as_new
from holdfast.workflows.operations.signal import signal
from holdfast.workflows.operations.step import call_step
from holdfast.workflows.options import StartOptions
from holdfast.workflows.record import DERIVED_ID_MARK, partition_of
from holdfast.workflows.scope import activation_for, current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.asl.definition import Machine
    from holdfast.asl.frames import Run
    from holdfast.asl.machine import Program
    from holdfast.kernel.runtime import Declares
    from holdfast.replay.activation import Activation

MOST_RUNS: Final = 20
"""A Map run continues as new after a thousand child executions, or after a twentieth of all if those are more: each run
takes the list of all items along."""

OUTCOMES_OF_A_STEP: Final = 250
"""How many outcomes one step reads."""


class Interpreter(Protocol):
    """What runs the executions of a machine."""

    def machine_of(self, definition: str) -> Machine:
        """The machine of a definition that an execution began with."""
        ...

    def program(self, machine: Machine) -> Program:
        """The machine with what does its tasks today."""
        ...


class MapRuns:
    """The workflows of a machine's Map runs and of their child executions."""

    def __init__(self, app: Declares, name: str, version: str, interpreter: Interpreter) -> None:
        self._runtime = app.runtime
        self._interpreter = interpreter
        self.items_of_a_run = ITEMS_OF_A_RUN
        self.runs: Workflow[..., Any] = Workflow(self._run_body(), app.runtime, name=maps_of(name), version=version)
        self.items = StatesWorkflow(self._item_body(), app.runtime, name=items_of(name), version=version)
        app.registry.add_workflow(self.runs)
        app.registry.add_workflow(self.items)

    # ── The execution that has the Map ──────────────────────────────────────────────────────────────────────────────

    async def distribute(self, run: Run, order: MapOrder, map_run: str, /) -> Any:
        """See ``Maps``."""
        run.pace.operations += 1
        options = StartOptions(id=DERIVED_ID_MARK + map_run)
        try:
            return await call_child(run.activation, self.runs, (order,), {}, options)
        except ExecutionError as error:
            raise failure_of(error) from error
        except PayloadTooLarge as error:
            raise StatesError(DATA_LIMIT_EXCEEDED, str(error)) from error
        except SerializationError as error:
            raise StatesError(RUNTIME, str(error)) from error

    # ── A child execution ───────────────────────────────────────────────────────────────────────────────────────────

    def _item_body(self) -> Any:
        async def state_machine(child: Child, processor: str, cursor: Cursor | None = None) -> Any:
            activation = activation_for("a state machine")
            machine = self._interpreter.machine_of(text_of(activation, processor))
            program = self._interpreter.program(machine)
            cursor = cursor or first_cursor(machine, child.part.input, activation.now_ms)
            go_on = partial(continue_as_new, child, processor)
            return await run_machine(program, activation, child.context(cursor.started_ms), cursor, go_on)

        return state_machine

    # ── A Map run ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run_body(self) -> Any:
        async def map_run(order: MapOrder, cursor: MapCursor | None = None) -> Any:
            activation = activation_for("a Map run")
            try:
                return await self._ran(activation, order, cursor or MapCursor())
            except StatesError as error:
                raise Error(error.error, error.cause) from error.__cause__  # by which a retry knows what failed

        return map_run

    async def _ran(self, activation: Activation, order: MapOrder, cursor: MapCursor) -> Any:
        name = current().id.removeprefix(DERIVED_ID_MARK)
        children = [Child(order.owner, name, index, part, order.express) for index, part in enumerate(order.parts)]
        most = max(self.items_of_a_run, -(-len(children) // MOST_RUNS))
        last = min(cursor.next + most, len(children))
        progress = Progress(order, cursor)
        query(progress.report)
        starts = [partial(self._started, activation, progress, each) for each in children[cursor.next : last]]
        together = Together(starts, concurrency_in_force(order.concurrency), lambda _error: progress.too_much())
        async with _updates(progress, together):
            ended = await together.all()
        if last < len(children):
            continue_as_new(progress.order, progress.cursor(last))
        return await self._result(activation, progress, name, children, ended)

    async def _started(self, activation: Activation, progress: Progress, child: Child) -> Any:
        """The output of a child execution. Raises ``StatesError``."""
        timeout_ms = EXPRESS_SECONDS * 1000 if child.express else None
        options = StartOptions(id=child.id, timeout_ms=timeout_ms)
        progress.began(child)
        with place(f"[{child.index}]"):
            try:
                output = await call_child(activation, self.items, (child, progress.order.processor), {}, options)
            except ExecutionError as error:
                progress.ended(child, error)
                raise failure_of(error) from error
        progress.ended(child, None)
        return output

    async def _result(
        self,
        activation: Activation,
        progress: Progress,
        name: str,
        children: Sequence[Child],
        ended: Sequence[Ended],
    ) -> Any:
        order = progress.order
        if order.writer is None and len(ended) == len(children):
            return [each.output for each in ended if each.error is None]
        with place("result"):
            results = await self._outcomes(activation, children)
            if order.writer is None:
                return [json.loads(outcome.output) for _, outcome in results if outcome.output]
            run = self._interpreter.program(self._interpreter.machine_of(order.processor)).run(activation, History())
            result = await written(run, order.writer, name, order.owner.arn("mapRun", name), results)
        progress.written = True
        return result

    async def _outcomes(self, activation: Activation, children: Sequence[Child]) -> Results:
        async def outcomes(first: int, last: int) -> list[Outcome]:
            partitions = [partition_of(self.items.name, each.id) for each in children[first:last]]
            read = partial(outcomes_at, self._runtime(), partitions)
            return await sit_out(read, lambda _error: None)  # an outage is no failure of the machine

        step: Step[..., list[Outcome]] = Step(outcomes)
        found: list[Outcome] = []
        for first in range(0, len(children), OUTCOMES_OF_A_STEP):
            found += await call_step(activation, step, (first, first + OUTCOMES_OF_A_STEP), {})
        return list(zip(children, found, strict=True))


@asynccontextmanager
async def _updates(progress: Progress, together: Together) -> AsyncGenerator[None]:
    """Let UpdateMapRun change what runs inside of the block."""

    async def listen() -> None:
        while True:
            progress.update(await signal(UPDATE, Update))
            together.keep_to(concurrency_in_force(progress.order.concurrency))
            if (exceeded := progress.too_much()) is not None:
                together.fail(exceeded)

    listening = asyncio.create_task(listen())
    try:
        yield
    finally:
        listening.cancel()
