"""The commands about workflows: start, look, list, ask, signal, and change one execution."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from holdfast import ids
from holdfast.client import Selection, StatusPage, list_executions, select
from holdfast.clock import moment
from holdfast.codec import jsontext
from holdfast.commands.arguments import NO_ARGUMENTS, arguments_of
from holdfast.commands.context import Command, Context
from holdfast.commands.named import Named
from holdfast.commands.right import Right
from holdfast.items import Item
from holdfast.workflows.diagnosis import diagnose
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import Event
from holdfast.workflows.launch import launch
from holdfast.workflows.options import start_options
from holdfast.workflows.record import ExecutionRef, partition_of
from holdfast.workflows.view import View, view_of

A = TypeVar("A")

LISTED: Final = 100


class Forked(Struct, frozen=True):
    """The execution that a fork has made."""

    workflow: str
    id: str


class History(Struct, frozen=True):
    """What has happened in an execution's current run, in order."""

    events: list[Event]


class Start(Command[Item], frozen=True, tag="start"):
    """Start an execution, or find the one that was started with this id and input (G1, G11). Answers its head."""

    workflow: str
    input: Raw = NO_ARGUMENTS
    id: str | None = None
    tags: dict[str, str] = field(default_factory=dict[str, str])
    timeout: str | float | None = None
    delay: str | float | None = None
    at: datetime | None = None

    def check(self, context: Context) -> None:
        workflow = context.app.registry.workflow(self.workflow)
        start_options(id=self.id, tags=self.tags, timeout=self.timeout, delay=self.delay, at=self.at)
        arguments_of(workflow.signature, self.input)

    async def perform(self, context: Context) -> Item:
        workflow, runtime = context.app.registry.workflow(self.workflow), context.app.runtime()
        options = start_options(
            id=context.id_of(self.id), tags=self.tags, timeout=self.timeout, delay=self.delay, at=self.at
        )
        input = arguments_of(workflow.signature, self.input, runtime.limit_bytes)
        now = runtime.clock.now_ms()
        order = options.order(input, now, new_id=ids.new_ordered_id(now), tags={})
        return await launch(runtime.home, runtime.host, workflow, order, runtime.clock)


class ListExecutions(Command[StatusPage], frozen=True, tag="list"):
    """List executions, newest first, a page at a time."""

    workflow: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: dict[str, str] = field(default_factory=dict[str, str])
    parent: ExecutionRef | None = None
    root: ExecutionRef | None = None
    beginning: str = ""
    after: str | None = None
    limit: int = LISTED
    most_read: int | None = None
    """How many stored executions to look through at most; the page may be short then, although there are more."""
    waits_for: str | None = None
    """A kind of wait, or ``kind:name``."""
    error: str = ""
    """What the line of the error has in it, in large or small letters. Callers need the right to inspect for it."""
    scan: bool = False
    """Whether all that the home holds may be read, where that is billed."""

    @classmethod
    def of(cls, selection: Selection, *, after: str | None, limit: int) -> ListExecutions:
        """The list of what a selection chooses."""
        return cls(
            selection.workflow,
            selection.status,
            selection.since,
            selection.until,
            selection.tags,
            selection.parent,
            selection.root,
            selection.beginning,
            after,
            limit,
            waits_for=None if selection.waits_for is None else str(selection.waits_for),
            error=selection.error,
            scan=selection.scan,
        )

    async def perform(self, context: Context) -> StatusPage:
        if self.workflow is not None:
            context.names.workflow(context.app, self.workflow)
        selection = select(
            self.workflow,
            status=self.status,
            since=self.since,
            until=self.until,
            tags=self.tags,
            parent=self.parent,
            root=self.root,
            beginning=self.beginning,
            waits_for=self.waits_for,
            error=self.error,
            scan=self.scan,
        )
        return await list_executions(
            context.app.runtime(), selection, after=self.after, limit=self.limit, most_read=self.most_read
        )


class OnExecution(Command[A], frozen=True):
    """What is about one execution that is there."""

    workflow: str
    id: str

    def __str__(self) -> str:
        return f"{self.workflow} {self.id}"


class Status(OnExecution[Item], frozen=True, tag="status"):
    """Look at an execution. Answers its head."""

    async def perform(self, context: Context) -> Item:
        context.names.workflow(context.app, self.workflow)
        return await head_of(context.app.runtime(), partition_of(self.workflow, self.id))


class Result(OnExecution[Any], frozen=True, tag="result"):
    """Wait until an execution has ended, and answer what it returned; raises what it failed with."""

    timeout: str | float | None = None

    async def perform(self, context: Context) -> Any:
        return await context.handle(self.workflow, self.id).result(self.timeout)


class ReadHistory(OnExecution[History], frozen=True, tag="history"):
    """What has happened in an execution's current run, without payloads."""

    async def perform(self, context: Context) -> History:
        return History(await context.handle(self.workflow, self.id).history())


class Show(OnExecution[View], frozen=True, tag="show"):
    """Look at one execution: what has happened, what it waits for, what is wrong with it, and what to do next.

    ``payloads`` are inputs, results and arguments; ``tracebacks`` are those of all errors. ``most_lines`` limits the
    timeline to its last ones. Callers see payloads, tracebacks and what errors say only with the right to inspect.
    """

    payloads: bool = False
    tracebacks: bool = False
    most_lines: int | None = None

    async def perform(self, context: Context) -> View:
        context.names.workflow(context.app, self.workflow)
        runtime = context.app.runtime()
        view = await view_of(
            runtime,
            partition_of(self.workflow, self.id),
            payloads=self.payloads,
            tracebacks=self.tracebacks,
            most_lines=self.most_lines,
        )
        return replace(view, troubles=diagnose(view, moment(runtime.clock.now_ms())))


class Query(OnExecution[Raw], frozen=True, tag="query"):
    """Ask an execution's body, by a function that it exposes. Answers JSON."""

    name: str

    async def perform(self, context: Context) -> Raw:
        handle = context.app.registry.workflow(self.workflow).handle(self.id)
        return Raw(jsontext.encode(await handle.query(self.name)))


class Signal(OnExecution[None], frozen=True, tag="signal"):
    """Send a named value to an execution, durably; one with an id is taken once."""

    name: str
    value: Any = None
    signal_id: str | None = None

    async def perform(self, context: Context) -> None:
        id = context.id_of(self.signal_id)
        await context.handle(self.workflow, self.id).signal(self.name, self.value, id=id)


class Cancel(OnExecution[None], frozen=True, tag="cancel"):
    """Ask an execution to stop: its clean-up and its sagas run first. A request with an id is taken once."""

    reason: str = ""
    cancel_id: str | None = None

    async def perform(self, context: Context) -> None:
        id = context.id_of(self.cancel_id)
        await context.handle(self.workflow, self.id).cancel(self.reason, id=id)


class Terminate(OnExecution[None], frozen=True, tag="terminate"):
    """End an execution at once, without clean-up or compensation."""

    reason: str = "terminated"

    async def perform(self, context: Context) -> None:
        await context.handle(self.workflow, self.id).terminate(self.reason)


class Pause(OnExecution[None], frozen=True, tag="pause"):
    """Let an execution start nothing new."""

    async def perform(self, context: Context) -> None:
        await context.handle(self.workflow, self.id).pause()


class Resume(OnExecution[None], frozen=True, tag="resume"):
    """Let a paused execution continue."""

    async def perform(self, context: Context) -> None:
        await context.handle(self.workflow, self.id).resume()


class Delete(OnExecution[None], frozen=True, tag="delete"):
    """Delete an execution that has ended, with all it has stored."""

    async def perform(self, context: Context) -> None:
        await context.handle(self.workflow, self.id).delete()


class Move(OnExecution[None], frozen=True, tag="move"):
    """Pin an execution to the code of this app."""

    async def perform(self, context: Context) -> None:
        await context.app.registry.workflow(self.workflow).handle(self.id).move()


class Retry(OnExecution[None], frozen=True, tag="retry"):
    """Continue an execution that ended badly, from what failed."""

    async def perform(self, context: Context) -> None:
        await context.app.registry.workflow(self.workflow).handle(self.id).retry()


class RetryNow(OnExecution[None], frozen=True, tag="retry-now"):
    """Let steps that wait for their next attempts make them now."""

    async def perform(self, context: Context) -> None:
        await context.handle(self.workflow, self.id).retry_now()


class Fork(OnExecution[Forked], frozen=True, tag="fork"):
    """Start a new execution from the history of another one."""

    new_id: str | None = None
    before: str | None = None

    async def perform(self, context: Context) -> Forked:
        new_id = context.id_of(self.new_id)
        handle = context.handle(self.workflow, self.id)
        made = await handle.fork(ids.new_id() if new_id is None else new_id, before=self.before)
        return Forked(made.workflow, made.id)


COMMANDS: Final[tuple[Named, ...]] = (
    Named("start", Start, Right.WRITE, needs_code=True),
    Named("status", Status, Right.READ),
    Named("result", Result, Right.READ),
    Named("list", ListExecutions, Right.READ),
    Named("history", ReadHistory, Right.READ),
    Named("show", Show, Right.READ),
    Named("query", Query, Right.READ, needs_code=True),
    Named("signal", Signal, Right.WRITE),
    Named("cancel", Cancel, Right.CONTROL, audited=True),
    Named("terminate", Terminate, Right.CONTROL, audited=True),
    Named("pause", Pause, Right.CONTROL, audited=True),
    Named("resume", Resume, Right.CONTROL, audited=True),
    Named("delete", Delete, Right.CONTROL, audited=True),
    Named("move", Move, Right.CONTROL, needs_code=True, audited=True),
    Named("retry", Retry, Right.CONTROL, needs_code=True, audited=True),
    Named("retry-now", RetryNow, Right.CONTROL, audited=True),
    Named("fork", Fork, Right.CONTROL, audited=True),
)
