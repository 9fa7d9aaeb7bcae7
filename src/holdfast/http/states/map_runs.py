"""DescribeMapRun, ListMapRuns and UpdateMapRun, and the child executions of a Map run.

A Map run is an execution of the workflow of its machine's Map runs: ``holdfast.asl.distributed``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, Struct

from holdfast import ids
from holdfast.asl.ending import STATUS_OF
from holdfast.asl.orders import MapOrder, child_name, items_of, map_runs_of, maps_of
from holdfast.asl.progress import (
    FAILED,
    MOST_CONCURRENCY,
    REPORT,
    RUNNING,
    TIMED_OUT,
    UPDATE,
    Counts,
    Report,
    Update,
)
from holdfast.asl.reading import redrives_of
from holdfast.http.states import asked
from holdfast.http.states.faults import invalid_request, no_resource
from holdfast.http.states.names import execution_arn, map_run_arn
from holdfast.http.states.service import Answer, Service, limit_of, seconds
from holdfast.http.states.standing import of_head, standing_of, workflows_of
from holdfast.workflows.messages import send
from holdfast.workflows.queries import answer_of
from holdfast.workflows.record import (
    DERIVED_ID_MARK,
    ExecutionRecord,
    Signal,
    decode_record,
    is_there,
    partition_of,
    workflow_of,
)

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.workflows.record import Parent

READ_AT_A_TIME: Final = 250

_COUNTED: Final = {
    "running": RUNNING,
    "succeeded": "SUCCEEDED",
    "failed": FAILED,
    "timedOut": TIMED_OUT,
    "aborted": "ABORTED",
}
"""The fields of MapRunExecutionCounts and MapRunItemCounts, and the status that each counts."""


class Begun(Struct, frozen=True):
    """The input of the workflow of Map runs."""

    order: MapOrder


class Standing(Struct, frozen=True):
    """A Map run: its name, its head, its record, and what it was given when its present run began."""

    name: str
    head: Item
    record: ExecutionRecord
    order: MapOrder

    @staticmethod
    def of(head: Item) -> Standing:
        """The Map run of a head."""
        record = decode_record(head.body)
        order = msgspec.json.decode(bytes(record.input), type=Begun).order
        return Standing(record.id.removeprefix(DERIVED_ID_MARK), head, record, order)

    @property
    def arn(self) -> str:
        """Its ARN."""
        return self.order.owner.arn("mapRun", self.name)

    @property
    def parent(self) -> Parent:
        """The execution that has the Map."""
        assert self.record.parent is not None  # nothing else starts one
        return self.record.parent


async def list_all(service: Service, request: asked.ListMapRuns) -> Answer:
    """The Map runs of an execution."""
    await service.check_list()
    standing = await standing_of(service, execution_arn(request.execution_arn))
    store, now = service.call.app.runtime().home.store, service.now_ms()
    partition, nonce = standing.head.partition, standing.record.nonce
    workflow = maps_of(workflow_of(partition).removesuffix(items_of("")))
    beginning = partition_of(workflow, f"{DERIVED_ID_MARK}{map_runs_of(partition, nonce)}-")
    page = await store.scan(beginning, after=service.after(request), limit=limit_of(request))
    told: list[Answer] = []
    for found in map(Standing.of, (head for head in page.items if is_there(head, now))):
        each: Answer = {
            "executionArn": standing.about.arn,
            "mapRunArn": found.arn,
            "stateMachineArn": standing.about.machine_arn,
            "startDate": seconds(found.record.created_at),
        }
        if found.record.ended_at is not None:
            each["stopDate"] = seconds(found.record.ended_at)
        told.append(each)
    return service.page("mapRuns", told, page.cursor)


async def describe(service: Service, request: asked.OfMapRun) -> Answer:
    """A Map run: what it keeps to and how far it has come. Raises ``Fault``."""
    found, runtime = await _found(service, request.map_run_arn), service.call.app.runtime()
    workflow = runtime.registry.workflow(found.record.workflow)
    answer = await answer_of(runtime, found.head.partition, workflow, REPORT)
    report = answer if isinstance(answer, Report) else msgspec.convert(answer, Report)
    parent = await runtime.home.store.get(found.parent.partition)
    executions, items = await _by_status(service, found, report)
    told: Answer = {
        "mapRunArn": found.arn,
        "executionArn": "" if parent is None else of_head(service, parent).about.arn,
        "status": STATUS_OF.get(found.head.status, RUNNING),
        "startDate": seconds(found.record.created_at),
        "maxConcurrency": report.concurrency,
        "toleratedFailurePercentage": report.tolerance.percentage or 0.0,
        "toleratedFailureCount": report.tolerance.count or 0,
        "itemCounts": _counted(items, report.all_items, written=report.written),
        "executionCounts": _counted(executions, report.all_executions, written=report.written),
    }
    told["redriveCount"], at_ms = await redrives_of(runtime.home.store, found.head.partition, found.record)
    if at_ms:
        told["redriveDate"] = seconds(at_ms)
    if found.record.ended_at is not None:
        told["stopDate"] = seconds(found.record.ended_at)
    return told


async def _by_status(service: Service, found: Standing, report: Report) -> tuple[Counts, Counts]:
    """How many child executions, and items, are of each status of AWS.

    A child that a Map run has left behind counts by how it ended itself: as failed if it failed before it was stopped,
    as aborted if it was stopped while it ran, and as pending if it never ran.
    https://docs.aws.amazon.com/step-functions/latest/apireference/API_MapRunExecutionCounts.html; those who have tried
    Step Functions report the same: https://github.com/floci-io/floci/pull/2694
    """
    executions, items = Counter(report.executions), Counter(report.items)
    for first in range(0, len(report.open), READ_AT_A_TIME):
        few = report.open[first : first + READ_AT_A_TIME]
        for (_, count), status in zip(few, await _statuses(service, found, [index for index, _ in few]), strict=True):
            if status is not None:
                executions[status] += 1
                items[status] += count
    return executions, items


async def _statuses(service: Service, found: Standing, indexes: list[int]) -> list[str | None]:
    """The status of each of these children; ``None`` if it was never started."""
    if found.head.status not in STATUS_OF:
        return [RUNNING] * len(indexes)
    store, now = service.call.app.runtime().home.store, service.now_ms()
    workflow = items_of(found.record.workflow.removesuffix(maps_of("")))
    partitions = [partition_of(workflow, f"{DERIVED_ID_MARK}{child_name(found.name, index)}") for index in indexes]
    heads = await asyncio.gather(*map(store.get, partitions))
    return [STATUS_OF.get(head.status, RUNNING) if is_there(head, now) else None for head in heads]


def _counted(counts: Counts, total: int, *, written: bool) -> Answer:
    told = {field: counts.get(status, 0) for field, status in _COUNTED.items()}
    return told | {
        "pending": total - sum(told.values()),
        "total": total,
        "resultsWritten": total if written else 0,
        "failuresNotRedrivable": 0,
        "pendingRedrive": 0,
    }


async def update(service: Service, request: asked.UpdateMapRun) -> Answer:
    """Change what a running Map run keeps to. Raises ``Fault``."""
    found, runtime = await _found(service, request.map_run_arn), service.call.app.runtime()
    change = Update(request.max_concurrency, request.tolerated_failure_count, request.tolerated_failure_percentage)
    if not 0 <= (change.concurrency or 0) <= MOST_CONCURRENCY or (change.count or 0) < 0:
        raise invalid_request(f"maxConcurrency is 0 to {MOST_CONCURRENCY:,}, and toleratedFailureCount at least 0")
    if not 0 <= (change.percentage or 0) <= 100:
        raise invalid_request("toleratedFailurePercentage is 0 to 100")
    message = Signal(ids.new_id(), UPDATE, Raw(msgspec.json.encode(change)))
    partition, home = found.head.partition, runtime.home
    if not await send(partition, message, home, runtime.host, runtime.sender, service.now_ms()):
        raise invalid_request(f"Map Run is not running: '{found.arn}'")
    return {}


async def children(service: Service, request: asked.ListExecutions, arn: str) -> Answer:
    """The child executions of a Map run, a page at a time. Raises ``Fault``."""
    await service.check_list()
    found = await _found(service, arn)
    workflow = items_of(found.record.workflow.removesuffix(maps_of("")))
    beginning = partition_of(workflow, f"{DERIVED_ID_MARK}{found.name}-")
    store, now = service.call.app.runtime().home.store, service.now_ms()
    limit, after = limit_of(request), service.after(request)
    told: list[Answer] = []
    while len(told) < limit:
        page = await store.scan(beginning, after=after, limit=limit - len(told))
        stands = [of_head(service, head) for head in page.items if is_there(head, now)]
        told += [each.summary() for each in stands if request.status_filter in (None, each.status)]
        after = page.cursor
        if after is None:
            break
    return service.page("executions", told, after)


async def _found(service: Service, text: str) -> Standing:
    arn = map_run_arn(text)
    store, now = service.call.app.runtime().home.store, service.now_ms()
    for workflow in workflows_of(service, arn):
        head = await store.get(partition_of(maps_of(workflow), DERIVED_ID_MARK + arn.last))
        if is_there(head, now):
            return Standing.of(head)
    raise no_resource(arn.text)
