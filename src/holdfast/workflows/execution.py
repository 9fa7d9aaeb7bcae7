"""The program of a workflow execution: between the kernel's entries and the user's body."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from msgspec import Raw, Struct, UnsetType
from msgspec.structs import replace

from holdfast.coordination.inbox import MARKED, USED
from holdfast.items import Delete, Item, Update, Write
from holdfast.kernel.entity import Told
from holdfast.kernel.outcomes import Conclusion
from holdfast.replay.entries import Cancelled, Done, Entry, Failed, Note, Pending, Received
from holdfast.replay.journal import FIRST_EPOCH
from holdfast.replay.program import AnyEffect, Arrival, Asked, Contested, Timed
from holdfast.replay.requests import RUNNING as STILL_RUNNING
from holdfast.replay.requests import DueTimer, Operation, Request
from holdfast.workflows.aside import given_back, in_order, renewals
from holdfast.workflows.clearing import clearing
from holdfast.workflows.closing import UNANSWERED, close_callback, is_answered
from holdfast.workflows.ending import Ending
from holdfast.workflows.live import Live, recorder
from holdfast.workflows.operations.awaiting import arrival_of, awaiting, may_be_old, note, told_of, waiting_for
from holdfast.workflows.operations.step import retry_now
from holdfast.workflows.record import (
    AWAIT_PREFIX,
    CALLBACK_PREFIX,
    MAILBOX_PREFIX,
    NO_LONGER_AWAITED,
    NO_VALUE,
    AwaitedEnded,
    AwaitRequest,
    CallbackAnswer,
    CancelRequest,
    ChildEnded,
    ExecutionRecord,
    RetryNow,
    Signal,
    decode_message,
    encode_message,
    encode_record,
)
from holdfast.workflows.replay import activation_of
from holdfast.workflows.runs import count_of, first_revision
from holdfast.workflows.telling import Telling
from holdfast.workflows.waiting import waits_of
from holdfast.workflows.waits import Waits

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.workflows.declared import DeclaredWorkflow

PLAIN: Final = (Done, Failed, Pending)
"""Entries that say nothing but what the body itself is told."""

DEADLINE: Final = "!deadline"
"""The timer of the execution's own timeout, next to those of its body."""

NONE: Final[dict[str, None]] = {}
"""Shared by all executions that have got no message: the first one makes another."""

NO_CALLBACKS: Final = frozenset[str]()
"""The callbacks that most executions have had the time run out for. They share it."""


class HostWaker(Struct, frozen=True, gc=False):
    """Wakes the host on behalf of a body."""

    host: Host
    partition: str

    def wake(self) -> None:
        """Look at the execution soon."""
        self.host.check(self.partition)


class Execution:
    """One execution in memory (a ``Program`` of the kernel)."""

    __slots__ = (
        "_awaited_by",
        "_clears",
        "_closing",
        "_deadline_asked",
        "_is_untouched",
        "_kept",
        "_kept_at",
        "_live",
        "_look_again",
        "_partition",
        "_ran_out_of_time",
        "_record",
        "_seen",
        "_telling",
        "_workflow",
        "activation",
        "first_revision",
        "held",
        "is_saved",
        "recorded",
        "run",
        "start",
    )

    def __init__(self, head: Item, workflow: DeclaredWorkflow, live: Live, earlier: Waits | None = None) -> None:
        record = live.record
        self.run, self.start = record.run, record.nonce
        self.first_revision = first_revision(record.run)
        self._partition = head.partition
        self._is_untouched = head.epoch <= FIRST_EPOCH
        self.held: tuple[Entry, ...] = ()
        self._kept, self._kept_at = record.notes, record.notes_at
        self._record = record
        self._workflow = workflow
        self._live = live
        self.recorded = recorder(live)
        self._seen = dict.fromkeys(record.seen) if record.seen else NONE
        self._awaited_by = dict.fromkeys(record.awaited_by) if record.awaited_by else NONE
        self._look_again: tuple[Operation, ...] = ()
        self._deadline_asked = record.deadline_at is None
        self._ran_out_of_time = False
        self._clears = False
        self._closing = NO_CALLBACKS
        self.is_saved = True
        self._telling = Telling(earlier)

    # ── What the head tells of it ───────────────────────────────────────────────────────────────────────────────────

    def at_rest(self, unwritten: tuple[Entry, ...], count: int, *, tried: bool = False) -> bytes | UnsetType:
        waits, room = waits_of(self.activation, self._live), self._live.host.home.inline_bytes
        if tried:
            return encode_record(replace(self._record, notes=unwritten, notes_at=count, waits=waits))
        self._keep(unwritten, count)
        return self._telling.at_rest(waits, self._encoded, room, is_saved=self.is_saved)

    def saved(self) -> None:
        self.is_saved = True
        self._telling.saved()
        self._live.threads.leave_all(self._partition)

    def at_work(self, epoch: int) -> Told | None:
        waits, room = waits_of(self.activation, self._live), self._live.host.home.inline_bytes
        return self._telling.at_work(waits, self._encoded, room, epoch)

    def _keep(self, unwritten: tuple[Entry, ...], count: int) -> None:
        stays = not unwritten and all(isinstance(each, Note) for each in self._kept)
        if not stays and (unwritten, count) != (self._kept, self._kept_at):
            self._kept, self._kept_at = unwritten, count
            self.is_saved = False

    @property
    def mismatch(self) -> str | None:
        broken = self.activation.broken
        return None if broken is None else str(broken)

    def stuck(self) -> str | None:
        if (misfit := self.mismatch) is not None:
            return misfit
        return self.activation.stuck() if self._record.deadline_at is None or self._ran_out_of_time else None

    @property
    def under_way(self) -> Sequence[str]:
        return [op for op, request in self.activation.requested.items() if isinstance(request, Operation)]

    def blocked(self, reason: str, now: int) -> bytes:  # noqa: ARG002 - the signature of Program
        return encode_record(replace(self._with_notes(self._telling.earlier), blocked=reason))

    def _encoded(self, waits: Waits | None) -> bytes:
        return encode_record(self._with_notes(waits))

    def _with_notes(self, waits: Waits | None) -> ExecutionRecord:
        return replace(self._record, notes=self._kept, notes_at=self._kept_at, waits=waits)

    def begin(self, entries: Sequence[Entry], now: int, *, deaths: int = 0) -> None:
        live, record = self._live, self._record
        self._clears = count_of(self.run) > 0 and not entries
        if record.notes and record.notes_at == len(entries):
            self.held = record.notes
            entries = [*entries, *record.notes]
        if entries:
            self._take_in(entries)
        self.activation = activation_of(
            record,
            self._workflow,
            entries,
            live.registry.rebuild,
            shared=live.shared,
            untouched=self._is_untouched,
            limit_bytes=live.limit_bytes,
        )
        if live.host.telemetry.is_detailed and self._is_untouched and not entries:
            live.host.telemetry.detail("begun", partition=self._partition)
        self.activation.waker = HostWaker(live.host, self._partition)
        self.activation.begin(now)
        if deaths:
            for op in self.activation.requested:
                if not live.notes_on(op).pauses(live.now_ms()):
                    live.amend(op, died=deaths)

    # ── In ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_in(self, entries: Sequence[Entry]) -> None:
        """Note what is recorded besides what the body itself is told."""
        told = [entry for entry in entries if not isinstance(entry, PLAIN)]
        for entry in told:
            self._live.note(entry)
            match entry:
                case Received(id=id) | Cancelled(timed_out=False, id=id):
                    self._is_news(id)
                case Cancelled(timed_out=True):
                    self._deadline_asked = True  # it has come; another one would interrupt the clean-up
                    self._ran_out_of_time = True
                case _:
                    pass
        if awaited_by := dict.fromkeys(awaiting(told)):
            self._awaited_by = {**self._awaited_by, **awaited_by}

    def deliver(self, arrival: Arrival) -> bool:
        entry = arrival.entry
        match entry:
            case Done(op=op) | Failed(op=op):
                if op not in self.activation.requested:
                    return False
            case Received():
                if not self._is_news(entry.id):
                    return False
            case Cancelled(timed_out=False, id=id):
                if self.activation.main.is_stopping or (id and not self._is_news(id)):
                    return False  # it says what another one says, whose reason counts, or came before
            case Cancelled():
                self._ran_out_of_time = True
            case _:
                raise AssertionError(entry)
        self.activation.deliver(entry, arrival.value)
        return True

    def _is_news(self, id: str) -> bool:
        """Whether no message of this id has come before; from now on one has."""
        if id in self._seen:
            return False
        self._seen = self._seen or {}
        self._seen[id] = None
        return True

    def read(self, message: Item) -> Arrival | None:
        now = self._live.now_ms()
        match decode_message(message.body):
            case Signal(id, name, value, trace):
                return Arrival(Received(id, name, now, value, trace))
            case CancelRequest(reason, id):
                return Arrival(Cancelled(now, reason, id=id))
            case CallbackAnswer(run=run, op=op) as answer if run == self.run:
                return Arrival(Received(message.sort, MAILBOX_PREFIX + op, now, Raw(encode_message(answer))))
            case ChildEnded(op=op) as ended if ended.run == self.run and ended.nonce == self._record.nonce:
                return self._child_arrival(op, ended, now)
            case AwaitRequest(by) as request if by not in self._awaited_by:
                self._awaited_by = {**self._awaited_by, by: None}
                return Arrival(note(request, now))
            case RetryNow():
                retry_now(self._live)
                return None
            case AwaitedEnded(partition) as ended:
                waiting = waiting_for(partition, self.activation.requested.values(), self._live)
                return self._awaited_arrival(waiting, ended)
            case _:
                return None

    def _child_arrival(self, op: str, ended: ChildEnded, now: int) -> Arrival | None:
        if (request := self.activation.requested.get(op)) is None:
            return None
        operation, error = cast("Operation", request), ended.error
        # We cancelled it, or it may have been taken back; and were retried since.
        if error is not None and (error.message.endswith(NO_LONGER_AWAITED) or may_be_old(ended, self._record)):
            self._look_again += (operation,)
            return None
        return Arrival(told_of(operation, ended.value, error, now))

    def _awaited_arrival(self, waiting: Sequence[Operation], ended: AwaitedEnded) -> Arrival | None:
        if ended.value == NO_VALUE and (ended.error is None or may_be_old(ended, self._record)):
            self._look_again += tuple(waiting)
            return None
        return arrival_of(waiting, ended.value, ended.error, self._live)

    def acknowledge(self, message: Item) -> Write:
        if message.status != MARKED and message.sort.startswith((CALLBACK_PREFIX, AWAIT_PREFIX)):
            return Update(partition=self._partition, sort=message.sort, status=USED, body=b"")
        return Delete(self._partition, message.sort)

    def wants(self, op: str) -> bool:
        return op == DEADLINE or op in self.activation.requested

    def due(self, op: str, now: int) -> Arrival | AnyEffect | Contested | None:
        if op == DEADLINE:
            return Arrival(Cancelled(now, "it ran past its timeout", timed_out=True))
        request = self.activation.requested.get(op)
        if request is None:
            return None
        if isinstance(request, DueTimer):
            fired = Arrival(Done(op, now, request.kind, fingerprint=request.fingerprint, began=request.began_at))
            return self._contested(op, fired, request.closes) if request.closes else fired
        if self._live.notes_on(op).pauses(now):
            return None  # the timer of an earlier pause, which was cut short
        effect: AnyEffect = request.command.effect(request, self._live)
        return effect

    # ── Out ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def asked(self) -> Asked | None:
        activation = self.activation
        if activation.loop.intruded:
            activation.interrupt()
        if activation.broken is not None:
            return Asked(withdrawn=activation.abandon(), mismatch=str(activation.broken))
        wants = activation.take_wants()
        timers: list[Timed] = [] if self._deadline_asked else self._ask_for_deadline()
        effects = self._ask_again() if self._look_again or self._clears else []
        if wants is None:
            return Asked(timers=timers, effects=effects) if timers or effects else None
        notes: tuple[Note, ...] = wants.notes
        if wants.begun or wants.waits:
            notes += (wants.pending(self._workflow.steps, activation.named),)
        if self._live.noted:
            wants.marked += tuple(renewals(wants.asked, self._live))
            wants.asked = in_order(wants.asked, self._live)
        for request in wants.asked:
            self._sort_out(request, effects, timers)
        withdrawn: list[str] = []
        for request in wants.withdrawn:
            withdrawn.append(request.id)
            if isinstance(request, Operation):
                effects += request.command.withdrawn(request, self._live)
        return Asked(
            effects=effects,
            timers=timers,
            withdrawn=withdrawn,
            marks=wants.marked,
            notes=notes,
            writes=self._closed(wants.closed_callbacks) if wants.closed_callbacks else (),
        )

    def _closed(self, callbacks: Sequence[str]) -> Sequence[Write]:
        return [close_callback(self._partition, self.run, op) for op in callbacks if op not in self._closing]

    def _ask_again(self) -> list[AnyEffect]:
        """Look at once at those who have told us that they ended."""
        again, self._look_again = self._look_again, ()
        clears, self._clears = self._clears, False
        first: list[AnyEffect] = [clearing(self._live)] if clears else []
        return first + [each.command.effect(each, self._live) for each in again if each.id in self.activation.requested]

    def _ask_for_deadline(self) -> list[Timed]:
        assert self._record.deadline_at is not None
        self._deadline_asked = True
        return [Timed(self._record.deadline_at, DEADLINE)]

    def _sort_out(self, request: Request, effects: list[AnyEffect], timers: list[Timed]) -> None:
        live, noted = self._live, self._live.notes_on(request.id)
        if noted.aside is not None:
            live.amend(request.id, aside=None)
        if isinstance(request, DueTimer):
            timers.append(Timed(request.due_at if noted.aside is None else 0, request.id))
        elif noted.aside is not None:
            effects.append(given_back(noted.aside, live))
        elif noted.tried is not None and noted.pauses(live.now_ms()):
            timers.append(Timed(noted.tried.again_at, request.id))
        else:
            effects.append(request.command.effect(request, live))

    def _contested(self, timer: str, fired: Arrival, callback: str) -> Contested:
        """The end of a callback's time: it comes if no answer was accepted before."""
        self._closing |= {callback}
        claim = replace(close_callback(self._partition, self.run, callback), when=UNANSWERED)
        came_first = partial(is_answered, self._live.host.home.store, self._partition, self.run, callback)
        return Contested(timer, fired, claim, came_first)

    def concluded(self) -> bool:
        return self.activation.outcome is not STILL_RUNNING

    def conclusion(self, tail: Sequence[Entry], now: int) -> Conclusion:
        ending = Ending(
            partition=self._partition,
            record=self._record,
            tail=tuple(tail),
            ended_at=now,
            workflow=self._workflow,
            live=self._live,
            activation=self.activation,
            seen=tuple(self._seen),
            awaited_by=tuple(self._awaited_by),
        )
        return ending.conclusion()

    def evict(self) -> None:
        self.activation.evict()
        self._live.threads.leave_all(self._partition)
