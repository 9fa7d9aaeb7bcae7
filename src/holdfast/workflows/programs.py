"""What the kernel must know of workflows: which entities are executions, and how one is taken up."""

from __future__ import annotations

from collections.abc import Coroutine
from sys import intern
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.bounded import Bounded
from holdfast.coordination.inbox import Sender
from holdfast.errors import StoreUnusable
from holdfast.flow.record import QUEUED
from holdfast.items import Item
from holdfast.kernel.outcomes import Blocked
from holdfast.kernel.turn import run_turn
from holdfast.replay.entity import JournaledEntity
from holdfast.replay.program import Deadly
from holdfast.replay.stages import Replaying
from holdfast.workflows import record as records
from holdfast.workflows.execution import Execution
from holdfast.workflows.history import shared_by
from holdfast.workflows.live import Live
from holdfast.workflows.record import ExecutionRecord, decode_record, encode_record, pinned_to
from holdfast.workflows.runs import decode_start
from holdfast.workflows.unclaimed import attend
from holdfast.workflows.waiting_turn import Waiters

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.registrations import Registrations
    from holdfast.workflows.declared import DeclaredWorkflow
    from holdfast.workflows.threads import Threads

NO_TAGS: Final[dict[str, str]] = {}
NO_ANSWERS: Final[dict[str, Raw]] = {}
"""What most executions have, which are many: they share it."""

KEPT_SHARED: Final = 200
"""How many items that executions share stay in memory."""


def shared_items() -> Bounded[str, bytes]:
    """Room for the bodies of items that executions share."""
    return Bounded(KEPT_SHARED)


class Workflows(Struct, frozen=True):
    """The programming model of workflows. One per worker. ``shared`` has the bodies of items that executions share, as
    long as the app is open: the workers of the invocations of a function come and go.
    """

    registry: Registrations
    threads: Threads
    sender: Sender
    limit_bytes: int
    shared: Bounded[str, bytes]
    claimable: tuple[str, ...] = records.CLAIMABLE
    running: str = records.RUNNING
    suspended: str = records.SUSPENDED
    blocked: str = records.BLOCKED

    def serves(self, partition: str) -> bool:
        return (
            partition.startswith(records.PARTITION_PREFIX) and records.workflow_of(partition) in self.registry.workflows
        )

    def admit(self, partition: str) -> JournaledEntity:
        return JournaledEntity(partition, self)

    def turn(self, entity: JournaledEntity, host: Host) -> Coroutine[Any, Any, None]:
        return run_turn(entity, Replaying(self), host)

    def pins(self, partition: str) -> bool:
        workflow: DeclaredWorkflow = self.registry.workflow(records.workflow_of(partition))
        return workflow.is_pinned

    async def attend(self, head: Item, host: Host) -> Item | None:
        if head.status == QUEUED:
            return await Waiters(self.registry, self.sender, host).attend(head)
        await attend(head, self.taken_up, host)
        return None

    async def taken_up(self, head: Item, host: Host) -> Execution:
        record = decode_record(head.body)
        if record.needs and record.needs not in self.shared:
            try:
                self.shared[record.needs] = await shared_by(host.home.store, record)
            except StoreUnusable as error:
                raise Blocked(str(error), run=record.run) from error
        return self._opened(head, record, host)

    def start_of(self, head: Item) -> str:
        return decode_start(head.body).nonce

    def open(self, head: Item, host: Host) -> Execution:
        return self._opened(head, decode_record(head.body), host)

    def _opened(self, head: Item, record: ExecutionRecord, host: Host) -> Execution:
        if record.parked:
            raise Deadly(record.blocked, run=record.run)
        workflow = self.registry.workflow(record.workflow)
        if workflow.is_pinned and not workflow.is_version(wanted := pinned_to(record)):
            named = f", which {record.published} has" if record.published else ""
            raise Blocked(
                f"{records.describe_partition(head.partition)} {records.PINNED} {wanted}{named}; this worker has "
                f"{workflow.version}. Run a worker with the old code, move it, or make the workflow compatible",
                run=record.run,
                published=record.published,
            )
        published = record.published
        if workflow.is_pinned and host.home.versions is not None:
            published = host.home.versions.own or published
        # The bytes of its input would keep the whole body of the head in memory. Its names are those of many others.
        kept = replace(
            record,
            workflow=intern(record.workflow),
            version=intern(record.version),
            input=record.input.copy(),
            tags=record.tags or NO_TAGS,
            queries=record.queries or NO_ANSWERS,
            waits=None,
            published=published,
        )
        execution = Execution(head, workflow, self._live(head, kept, host), record.waits)
        execution.is_saved = published == record.published
        return execution

    def _live(self, head: Item, record: ExecutionRecord, host: Host) -> Live:
        return Live(
            host=host,
            registry=self.registry,
            record=record,
            partition=head.partition,
            limit_bytes=self.limit_bytes,
            sender=self.sender,
            threads=self.threads,
            shared=(record.needs and self.shared.use(record.needs)) or b"",
        )

    def blocked_body(self, head: Item, reason: str, now: int) -> bytes:  # noqa: ARG002 - the signature of Programs
        return encode_record(replace(decode_record(head.body), blocked=reason))

    def parked_body(self, head: Item, reason: str) -> bytes:
        return encode_record(replace(decode_record(head.body), blocked=reason, parked=True))
