"""A journaled entity in memory: our hold on it, and the work that is loaded."""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.containment import Escaped, is_asked_for
from holdfast.items import Item
from holdfast.kernel.entity import Entity, Told
from holdfast.replay.program import Arrival, Effect, Programs, Timed
from holdfast.replay.work import Work

TOLD_FROM: Final = 2
"""The renewal from which on the head tells what is under way: what is short is never told."""


class JournaledEntity(Entity):
    """One workflow execution that this process has in memory.

    ``ran_ahead``: its body was told what had fallen due before it was ours. ``handing_over``: effects were stopped
    here, for another process to perform. ``renewals`` of this lease have found effects under way. ``uncallable`` is why
    the version of the code that it wants cannot be called.
    """

    __slots__ = ("handing_over", "paused", "programs", "ran_ahead", "renewals", "uncallable", "work")

    def __init__(self, partition: str, programs: Programs) -> None:
        super().__init__(partition, programs)
        self.programs = programs
        self.work: Work | None = None
        self.paused = self.handing_over = self.ran_ahead = False
        self.renewals = 0
        self.uncallable: str | None = None

    @property
    def loaded(self) -> bool:
        return self.work is not None

    @property
    def has_news(self) -> bool:
        return self.unread or (self.work is not None and bool(self.work.arrivals))

    @property
    def at_work(self) -> Work:
        """What is loaded, in a turn that has loaded it."""
        assert self.work is not None
        return self.work

    @property
    def interrupted(self) -> bool:
        """Whether effects were asked for that this process will not perform: another one will, and so nothing ends."""
        return self.handing_over or (self.work is not None and bool(self.work.pending))

    def own(self, head: Item, *, created: bool = False, taken_over: bool = False, died: bool = False) -> None:
        """See ``Entity``."""
        if self.work is not None and self.work.program.start != self.programs.start_of(head):
            self.unload()
        if self.ran_ahead and head.revision != self.hold.revision:  # that is to be told first
            self.unload()
        self.ran_ahead = False
        super().own(head, created=created, taken_over=taken_over, died=died)
        self.paused = False
        self.renewals = 0
        if self.work is not None:
            self.work.journal.epoch = head.epoch

    def tells(self) -> Told | None:
        """See ``Entity``: from the second renewal on, as long as effects keep it from being released."""
        if self.work is None or not self.work.effects:
            return None
        self.renewals += 1
        return self.work.program.at_work(self.epoch) if self.renewals >= TOLD_FROM else None

    def forget(self) -> None:
        super().forget()
        work, self.work = self.work, None
        if work is not None:
            work.drop()

    def arrive(self, arrival: Arrival) -> None:
        """Take something in and see to it that the turn looks."""
        self.at_work.arrive(arrival)
        self.wake()

    # ── Its effects ─────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, effect: Effect, work: Work) -> None:
        """Let an effect happen concurrently with the others, and instead of an older one of the same operation."""
        task = asyncio.get_running_loop().create_task(self._perform(effect, work), name=effect.op)
        work.begin(effect.op, task)

    async def _perform(self, effect: Effect, work: Work) -> None:
        task = asyncio.current_task()
        try:
            came = await effect.perform()
        except BaseException as error:  # the store's, or a mistake of ours: the turn shall not wait for ever
            if is_asked_for(error, task):
                raise
            self.broken = error if isinstance(error, Exception) else Escaped(error)
            self.wake()
            return
        finally:
            if work.effects.get(effect.op) is task:
                del work.effects[effect.op]
        match came:
            case Arrival():
                work.arrive(came)
            case Timed(due_at, op):
                work.add_timer(due_at, op)
            case None:
                pass
        self.wake()

    def interrupt(self) -> None:
        """Stop what is under way, so that another process can take it up."""
        if self.work is not None:
            self.handing_over = bool(self.work.effects)
            self.work.cancel_effects()
        self.wake()
