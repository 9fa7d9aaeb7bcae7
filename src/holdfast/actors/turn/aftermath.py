"""What a delivery leaves behind, given what became of it: the actor after it, and what is to be written (G4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.actors.mailbox.marks import with_mark
from holdfast.actors.mailbox.parked import mark_of, parking
from holdfast.actors.mailbox.queue import Delivery, Later, Replied
from holdfast.actors.record import (
    NOT_BEGUN,
    REPLY_PREFIX,
    TAKEN,
    ActorRecord,
    Call,
    FailureRecord,
    KeptReply,
    Origin,
    Reply,
    TimerRecord,
    encode,
    fingerprint_of,
    timer_place,
)
from holdfast.actors.timers import after_firing, settings_replaced
from holdfast.actors.turn.applied import RESEND_WINDOW_MS, is_only_noted, with_applied
from holdfast.actors.turn.failure import Halt, Park, TellCaller, TryAgain, Verdict, after_failure, attempts_in
from holdfast.actors.turn.failure_log import log_failure
from holdfast.actors.turn.handling import Handling
from holdfast.actors.turn.kept_replies import kept_in, may_be_in_head, with_reply
from holdfast.actors.turn.ordered import noted
from holdfast.actors.turn.performed import Finished, Performed, Version, marked
from holdfast.actors.turn.replies import Place, applied, let_go, replied
from holdfast.errors import CallFailed
from holdfast.failure import describe
from holdfast.items import ABSENT, EXISTS, Delete, Item, Put, Write, parts_of

if TYPE_CHECKING:
    from holdfast.actors.kind import Instance, Kind
    from holdfast.actors.scope import Turn
    from holdfast.kernel.runtime import Runtime

# ── What may become of a delivery ───────────────────────────────────────────────────────────────────────────────────


class Earlier(Struct, frozen=True):
    """The delivery has come before, and this is what it was answered then."""

    reply: Reply


class Known(Struct, frozen=True):
    """The marks of the actor say that the message was applied before."""


class Early(Struct, frozen=True):
    """The message waits for its time: it is noted in the marks now, in the order in which it was sent."""


class Deletion(Struct, frozen=True):
    """The actor ends, and with it the messages at ``delayed`` that wait for their time, or for another attempt. The
    marks do not know those at ``numbered`` yet.
    """

    delayed: tuple[str, ...]
    numbered: tuple[str, ...] = ()


class Skip(Struct, frozen=True):
    """A timer's tick was missed, and is dropped."""

    timer: str


class Ran(Struct, frozen=True):
    """The method has run as ``turn``: its encoded result, and the actor after it, in memory and as it is stored."""

    turn: Turn
    result: bytes
    instance: Instance
    state: bytes
    handling: Handling | None = None


class Failed(Struct, frozen=True):
    """An attempt ended badly. The replies of what it has ``called`` are kept."""

    error: Exception
    called: tuple[Place, ...] = ()
    handling: Handling | None = None


Became = Ran | Failed | Earlier | Known | Early | Deletion | Skip

OUTCOMES: Final[dict[type[Verdict], str]] = {
    TellCaller: "failed",
    TryAgain: "retrying",
    Halt: "halted",
    Park: "parked",
}


# ── What it leaves behind ───────────────────────────────────────────────────────────────────────────────────────────


class Aftermath(Struct, frozen=True):
    """What a delivery finds: the actor ``before`` it, of which ``instance`` is in memory."""

    delivery: Delivery
    before: Version
    instance: Instance | None
    partition: str
    kind: Kind
    runtime: Runtime

    def of(self, became: Became) -> Performed:
        """What the delivery leaves behind, given what became of it."""
        match became:
            case Known():
                self.runtime.emit("delivery_repeated", partition=self.partition, place=self.delivery.place)
                version = self.before.without_failure(self.delivery.place)
                return Performed(version, (self._taken_out(version),), self.instance)
            case Early():
                return self._taken_in()
            case _:
                return marked(self._of(became), self.delivery, self.partition)

    def _of(self, became: Ran | Failed | Earlier | Deletion | Skip) -> Performed:
        match became:
            case Ran(handling=handling):
                performed = self._run(became)
                return performed if handling is None else performed.traced(handling, self._now, "done")
            case Failed(error=error, handling=handling):
                performed = self._given(verdict := self._verdict(became))
                if handling is None:
                    return performed
                return performed.traced(handling, self._now, OUTCOMES[type(verdict)], describe(error).type)
            case Earlier(reply):
                return self._repeated(reply)
            case Deletion(delayed, numbered):
                return self._deleted(delayed, numbered)
            case Skip(timer):
                self.runtime.emit("tick_skipped", partition=self.partition, timer=timer)
                record = replace(self.before.record, timers=self._timers_after(self.before.record.timers))
                return Performed(Version(record, self.before.state), (), self.instance)

    @property
    def _now(self) -> int:
        return self.runtime.clock.now_ms()

    def given(self, verdict: Verdict) -> Performed:
        """What the delivery leaves behind, given what is to become of it after it has failed."""
        return marked(self._given(verdict), self.delivery, self.partition)

    def _given(self, verdict: Verdict) -> Performed:
        match verdict:
            case TellCaller(error, called):
                return self._told(error, called)
            case TryAgain(failure):
                if self.delivery.sort is None and self.delivery.call.origin is not None:
                    return self._left_to_its_queue(failure)
                again = None if self.delivery.sort is None else self.delivery  # a timer comes again by itself
                return self._with_failure(failure, again=again)
            case Halt(failure):
                self.runtime.emit("halted", partition=self.partition, place=self.delivery.place)
                return self._with_failure(failure, halts=True)
            case Park(failure):
                return self._parked(failure)

    def begun(self) -> Performed:
        """An attempt begins: a message, or a timer, which kills its process is found in the end."""
        failure = self.before.failure_of(self.delivery.place)
        return self._with_failure(replace(failure, started=failure.started + 1))

    # ── A method that has run ───────────────────────────────────────────────────────────────────────────────────────

    def _run(self, ran: Ran) -> Performed:
        before, turn = self.before, ran.turn
        called = {**dict.fromkeys(before.failure_of(self.delivery.place).called), **turn.called}
        record, page = self._noted(self._record_after(turn))
        version = before
        if record is not before.record or ran.state != before.state or before.deleted:
            version = Version(record, ran.state)
        version = self._kept(Replied(ran.result), version)
        finished = self._answered(Replied(ran.result), version, (*turn.writes, *page), tuple(turn.to_wake))
        return Performed(version, (finished, *self._released(called, version)), ran.instance)

    def _record_after(self, turn: Turn) -> ActorRecord:
        """The record after a run; the same one if nothing in it has changed."""
        before, place = self.before.record, self.delivery.place
        timers, failures = self._timers_after(turn.timers), before.failures
        if failures and (place in failures or timers is not before.timers):
            gone = {place, *(timer_place(name) for name in settings_replaced(before.timers, timers))}
            failures = {name: each for name, each in failures.items() if name not in gone}
        after = (timers, turn.settings, turn.stamp, failures)
        if after != (before.timers, before.settings, before.stamp, before.failures):
            before = replace(before, timers=timers, settings=turn.settings, stamp=turn.stamp, failures=failures)
        call = self.delivery.call
        return with_applied(before, call.id, self._now) if is_only_noted(call, self.runtime.home) else before

    def _noted(self, record: ActorRecord) -> tuple[ActorRecord, tuple[Write, ...]]:
        """The record when the message is known by its queue's number and by its id, and what is written for that."""
        return noted(record, self.delivery.call, self.partition, self._now + self.kind.policy.reply_window_ms)

    def _timers_after(self, now_set: dict[str, TimerRecord]) -> dict[str, TimerRecord]:
        """The timers that are set; the one that made the delivery is set to its next tick."""
        if self.delivery.timer is None:
            return now_set
        return after_firing(self.delivery.timer, self.before.record.timers, now_set, self.runtime.clock.now_ms())

    def _answered(
        self, outcome: Replied, version: Version, sent: tuple[Write, ...] = (), to_wake: tuple[str, ...] = ()
    ) -> Finished:
        """What is to be committed for a call that was answered, with what it has sent. Its message leaves the inbox,
        and its reply is kept if it may be asked for: from elsewhere, or again.
        """
        kept, reply, paged = self._for_repeats(outcome, version)
        writes = (*sent, *kept, *self._receipt())
        return Finished(self.delivery, outcome, version, writes, to_wake, reply, paged)

    def _for_repeats(self, outcome: Replied, version: Version) -> tuple[tuple[Write, ...], Reply | None, str]:
        """How a repeat of the call is known: what is written for it next to the head, what it is answered, and the id
        that goes into the page of the commit.
        """
        call = self.delivery.call
        only_noted = is_only_noted(call, self.runtime.home)
        if only_noted and call.id not in version.record.recent:
            return (), applied(call), call.id
        if only_noted or not call.known:
            return (), None if call.origin is None else applied(call), ""
        there = kept_in(version.record, call.id, self._now)
        if there is not None and may_be_in_head(self.delivery, self.partition, self.kind, self.runtime.home):
            return (), there.reply, ""
        reply = self._reply(outcome)
        # An error has changed nothing, so a caller that is repaired later may have it tried again.
        kept = self._item(reply, None if call.kept and not reply.error else self._now + self._window_ms)
        named = () if call.origin is None or reply.error else self._for_request(call.origin, reply)
        return (Put(kept), *named), reply, ""

    def _reply(self, outcome: Replied) -> Reply:
        """What a repeat of the call is answered."""
        fingerprint = fingerprint_of(self.delivery.call)
        if outcome.error is not None:
            return Reply(fingerprint, error=describe(outcome.error))
        return Reply(fingerprint, Raw(outcome.data))

    @property
    def _window_ms(self) -> int:
        return self.kind.policy.reply_window_ms if self.delivery.call.named else RESEND_WINDOW_MS

    def _item(self, reply: Reply, until: int | None) -> Item:
        """The reply in an item of its own, until then (milliseconds)."""
        return Item(self.partition, REPLY_PREFIX + self.delivery.call.id, expires_at=until, body=encode(reply))

    def _kept(self, outcome: Replied, version: Version) -> Version:
        """The actor with the reply in its head, if it may be there and has room."""
        if not may_be_in_head(self.delivery, self.partition, self.kind, self.runtime.home):
            return version
        kept = KeptReply(self._now + self._window_ms, self._reply(outcome))
        record = with_reply(version.record, self.delivery.call.id, kept, self._now)
        return version if record is None else replace(version, record=record)

    def _for_request(self, origin: Origin, reply: Reply) -> tuple[Write, ...]:
        """The same reply under the id that the sender gave the request."""
        if not origin.requested or origin.id == self.delivery.call.id:
            return ()
        sort, until = REPLY_PREFIX + origin.id, self._now + self.kind.policy.reply_window_ms
        return (Put(Item(partition=self.partition, sort=sort, expires_at=until, body=encode(reply))),)

    def _released(self, called: Iterable[Place], version: Version) -> list[Finished]:
        """Keep the replies of what was called no longer than a repeat of the delivery is known by its own reply."""
        if not called:
            return []
        until = self.runtime.clock.now_ms() + self.kind.policy.reply_window_ms
        return [self._carried(version, tuple(part)) for part in let_go(called, until, self.runtime.home)]

    def _receipt(self) -> tuple[Write, ...]:
        """Take the message out of the inbox, if it is one."""
        return () if self.delivery.sort is None else (Delete(self.partition, self.delivery.sort, EXISTS),)

    def _taken_out(self, version: Version) -> Finished:
        """What is to be committed for a message that is only taken out of the inbox."""
        return Finished(self.delivery, Replied(), version, self._receipt())

    def _carried(self, version: Version, writes: tuple[Write, ...] = ()) -> Finished:
        """What is to be committed for the delivery and answers no caller."""
        return Finished(Delivery(self.delivery.call), Replied(), version, writes)

    # ── One that has failed ─────────────────────────────────────────────────────────────────────────────────────────

    def _verdict(self, failed: Failed) -> Verdict:
        before, now = self.before.failure_of(self.delivery.place), self.runtime.clock.now_ms()
        verdict = after_failure(failed.error, failed.called, self.delivery, before, self.kind.policy, now)
        if not isinstance(verdict, TellCaller):
            self.runtime.emit(
                "message_failed",
                partition=self.partition,
                attempt=attempts_in(verdict.failure),
                error=describe(failed.error).type,
            )
            log_failure(verdict, self.partition, self.delivery, self.kind.policy, now, self.runtime.home)
        return verdict

    def _told(self, error: Exception, called: tuple[Place, ...]) -> Performed:
        version = self.before.without_failure(self.delivery.place)
        outcome = Replied(error=self.runtime.registry.errors.rebuild(describe(error), CallFailed))
        version = self._kept(outcome, version)
        return Performed(version, (self._answered(outcome, version), *self._released(called, version)))

    def _with_failure(self, failure: FailureRecord, *, halts: bool = False, again: Delivery | None = None) -> Performed:
        version = self.before.with_failure(self.delivery.place, failure, halts=halts)
        return Performed(version, (self._carried(version),), again=again)

    def _left_to_its_queue(self, failure: FailureRecord) -> Performed:
        """A queue of another service has the message: it is to deliver it again, when it is to be tried again."""
        version = self.before.with_failure(self.delivery.place, failure)
        return Performed(version, (Finished(self.delivery, Later(failure.again_at), version),))

    def _parked(self, failure: FailureRecord) -> Performed:
        """Park a message, visibly, and go on with the next."""
        call, place, now = self.delivery.call, self.delivery.place, self.runtime.clock.now_ms()
        self.runtime.emit("parked", partition=self.partition, place=place)
        record = self.before.without_failure(place).record
        parked_up_to = max(record.parked_up_to, self.delivery.sort or "")
        record = replace(record, timers=self._timers_after(record.timers), parked_up_to=parked_up_to)
        record, page = self._noted(record)
        version = Version(record, self._state_after_parking(call))
        # It is the actor's from now on: put back, it is no repeat of what its queue has delivered.
        writes = (*parking(self.partition, place, replace(call, origin=None), failure, now), *page, *self._receipt())
        mark = mark_of(call) if call.known else None if call.origin is None else applied(call)
        return Performed(version, (Finished(self.delivery, Replied(), version, writes, reply=mark),))

    def _state_after_parking(self, call: Call) -> bytes:
        """The actor's state when it knows that a message was parked."""
        if self.kind.note_parked is None:
            return self.before.state
        instance = self.kind.decoded(self.before.state)
        self.kind.note_parked(instance, call)
        return self.kind.encode(instance)

    # ── What has not run ────────────────────────────────────────────────────────────────────────────────────────────

    def _repeated(self, reply: Reply) -> Performed:
        """A call or message comes once more: it is answered as before."""
        delivery = self.delivery
        if reply.parked:
            self.runtime.emit("message_repeated", partition=self.partition, place=delivery.place)
        if reply.fingerprint != fingerprint_of(delivery.call):
            self.runtime.emit("message_mismatched", partition=self.partition, id=delivery.call.id)
        version = self.before.without_failure(delivery.place)
        outcome = replied(reply, delivery.call, self.partition, self.runtime)
        if delivery.call.origin is not None and delivery.call.replies and not reply.parked:
            return Performed(version, (self._answered(outcome, version),), self.instance)  # it waits for a reply item
        there = version.record.replies.get(delivery.call.id)
        is_asked_elsewhere = delivery.call.replies and (delivery.sort is not None or delivery.call.kept)
        # The very reply that was found there, also if its time has passed since.
        if there is not None and there.reply is reply and is_asked_elsewhere:
            # It was kept for a repeat only, and this caller looks for an item.
            until = None if delivery.call.kept and not reply.error else there.until
            writes = (Put(self._item(reply, until)), *self._receipt())
            return Performed(version, (Finished(delivery, outcome, version, writes),), self.instance)
        return Performed(version, (Finished(delivery, outcome, version, self._receipt()),), self.instance)

    def _taken_in(self) -> Performed:
        """Note a message that waits for its time, and keep it until then."""
        call, sort = self.delivery.call, self.delivery.place
        record, moved = with_mark(self.before.record, self.partition, sort)
        version = Version(record, self.before.state, self.before.deleted).without_failure(sort)
        kept = Put(Item(self.partition, sort + TAKEN, body=encode(call)), ABSENT)
        later = Delivery(call, sort=sort + TAKEN, taken=True)
        writes = (Delete(self.partition, sort, EXISTS), kept, *moved)
        return Performed(version, (self._carried(version, writes),), self.instance, later=later)

    def _deleted(self, delayed: tuple[str, ...], numbered: tuple[str, ...]) -> Performed:
        """End the actor. What was sent to this life of it, and was to come later, does not come to the next."""
        record, ended = self.before.record, [Delete(self.partition, sort) for sort in delayed]
        moved: tuple[Write, ...] = ()
        for sort in numbered:
            record, writes = with_mark(record, self.partition, sort)
            moved += writes
        before = Version(record, self.before.state, self.before.deleted)
        # One write with the deletion, or before it: never left behind it.
        first = [self._carried(before, tuple(part)) for part in parts_of([*moved, *ended], self.runtime.home.bounds)]
        instance = self.kind.fresh()
        record = replace(record, schema=self.kind.schema, state=NOT_BEGUN, timers={}, failures={}, halted_by=None)
        version = self._kept(Replied(b"null"), Version(record, self.kind.encode(instance), deleted=True))
        return Performed(version, (*first, self._answered(Replied(b"null"), version)), instance)
