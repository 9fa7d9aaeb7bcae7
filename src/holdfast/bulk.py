"""Changing many executions: all that a selection finds, a page at a time, each reported by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client import Selection, StatusPage, list_executions
from holdfast.errors import InvalidInput, InvalidState, StoreError
from holdfast.kernel.runtime import Connect
from holdfast.keys import check_id, check_reason, check_signal_name
from holdfast.paging import Pages
from holdfast.workflows.handle import Handle
from holdfast.workflows.record import BLOCKED, CLAIMABLE, ENDED, OPEN, PAUSED, STATUSES
from holdfast.workflows.retry_execution import RETRYABLE
from holdfast.workflows.status import Status

PAGE: Final = 100
AT_ONCE: Final = 20
"""How many executions are changed concurrently."""


class Verb(Struct, frozen=True):
    """What is done to each: ``done`` is its past, for messages, ``statuses`` are those in which it makes sense."""

    done: str
    statuses: tuple[str, ...]
    change: Callable[[Handle[Any]], Awaitable[None]]


def retrying() -> Verb:
    """Go on with those that ended badly."""
    return Verb("retried", RETRYABLE, lambda handle: handle.retry())


def retrying_now() -> Verb:
    """Let steps that wait for their next attempts make them now."""
    return Verb("tried now", CLAIMABLE, lambda handle: handle.retry_now())


def pausing() -> Verb:
    """Let those that have not ended start nothing new."""
    return Verb("paused", CLAIMABLE, lambda handle: handle.pause())


def resuming() -> Verb:
    """Let those go on that are paused, or were parked because their processes died."""
    return Verb("resumed", (PAUSED, BLOCKED), lambda handle: handle.resume())


def moving() -> Verb:
    """Pin those whose own code is gone to the code of this app."""
    return Verb("moved", (BLOCKED,), lambda handle: handle.move())


def signalling(name: str, value: Any, id: str) -> Verb:
    """Send a signal to those that have not ended: each takes one with this id once."""
    check_signal_name(name)
    check_id("a signal's id", id)
    return Verb("signalled", OPEN, lambda handle: handle.signal(name, value, id=id))


def forking(suffix: str, before: str | None = None) -> Verb:
    """Fork each under its own id with a suffix. What was forked so is not forked again by a repeat: its id ends so."""
    check_id("the suffix of forks", suffix)

    async def fork(handle: Handle[Any]) -> None:
        if handle.id.endswith(suffix):
            raise InvalidState(f"its id ends with {suffix!r}, as the ids of these forks do")
        await handle.fork(handle.id + suffix, before=before)

    return Verb("forked", STATUSES, fork)


def cancelling(reason: str = "") -> Verb:
    """Ask those that have not ended to stop."""
    check_reason("a cancellation", reason)
    return Verb("cancelled", OPEN, lambda handle: handle.cancel(reason))


def terminating(reason: str = "terminated") -> Verb:
    """End those that have not ended."""
    check_reason("a termination", reason)
    return Verb("terminated", OPEN, lambda handle: handle.terminate(reason))


def deleting() -> Verb:
    """Delete those that have ended."""
    return Verb("deleted", ENDED, lambda handle: handle.delete())


class Changed(Struct, frozen=True, kw_only=True):
    """What became of one execution: ``error`` says why it was left as it is."""

    workflow: str
    id: str
    error: Exception | None = None


class ChangedPage(Struct, frozen=True):
    """Some executions that were changed, or could not be. To go on behind them, pass ``cursor`` as ``after``."""

    changed: tuple[Changed, ...]
    cursor: str | None


class Chosen:
    """The executions that a selection finds, newest first: look at them, or change all of them.

    Nothing is read or written before a page is asked for. Those that are created meanwhile are not among them. What
    was done stays done when the caller stops in the middle: the next time these no longer match, and ``after`` skips
    what was seen.
    """

    def __init__(self, selection: Selection, connect: Connect, handle_of: Callable[[str, str], Handle[Any]]) -> None:
        self._selection = selection
        self._connect = connect
        self._handle_of = handle_of

    @property
    def selection(self) -> Selection:
        """What was asked for."""
        return self._selection

    async def pages(self, *, after: str | None = None) -> AsyncIterator[StatusPage]:
        """All of them, a page at a time."""
        runtime, selection = self._connect(), self._selection
        async for page in Pages(lambda after: list_executions(runtime, selection, after=after, limit=PAGE), after):
            yield page

    def fit_for(self, verb: Verb) -> Chosen:
        """Those of them with which this can be done. Raises ``InvalidInput`` if the selection wants others."""
        wanted = self._selection.status
        if wanted is not None and wanted not in verb.statuses:
            raise InvalidInput(f"what is {wanted} cannot be {verb.done}; what can be is {', '.join(verb.statuses)}")
        among = tuple(each for each in verb.statuses if each in (self._selection.among or verb.statuses))
        if not among:
            raise InvalidInput(f"none of these can be {verb.done}; what can be is {', '.join(verb.statuses)}")
        return Chosen(replace(self._selection, among=among), self._connect, self._handle_of)

    async def change(self, verb: Verb, *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Do something with each that it can be done with; errors are reported, and the others go on."""
        async for page in self.fit_for(verb).pages(after=after):
            changed: list[Changed] = []
            for at in range(0, len(page.executions), AT_ONCE):
                some = page.executions[at : at + AT_ONCE]
                changed += await asyncio.gather(*(self._change_one(verb, each) for each in some))
            yield ChangedPage(tuple(changed), page.cursor)

    def retry(self, *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Go on with those that ended badly, as ``Handle.retry`` does."""
        return self.change(retrying(), after=after)

    def retry_now(self, *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Let steps make their next attempts now, as ``Handle.retry_now`` does."""
        return self.change(retrying_now(), after=after)

    def pause(self, *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Let those that have not ended start nothing new, as ``Handle.pause`` does."""
        return self.change(pausing(), after=after)

    def resume(self, *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Let paused and parked ones go on, as ``Handle.resume`` does."""
        return self.change(resuming(), after=after)

    def move(self, *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Pin blocked ones to the code of this app, as ``Handle.move`` does."""
        return self.change(moving(), after=after)

    def signal(self, name: str, value: Any = None, *, id: str, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Send a signal to those that have not ended, as ``Handle.signal`` does: each takes one with this id once."""
        return self.change(signalling(name, value, id), after=after)

    def fork(self, suffix: str, *, before: str | None = None, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Fork each as ``Handle.fork`` does, under its own id with a suffix.

        One that has its fork already is reported, and so is one whose id ends with the suffix: a repeat makes no more.
        """
        return self.change(forking(suffix, before), after=after)

    def cancel(self, reason: str = "", *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Ask those that have not ended to stop, as ``Handle.cancel`` does."""
        return self.change(cancelling(reason), after=after)

    def terminate(self, reason: str = "terminated", *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """End those that have not ended at once, as ``Handle.terminate`` does."""
        return self.change(terminating(reason), after=after)

    def delete(self, *, after: str | None = None) -> AsyncIterator[ChangedPage]:
        """Delete those that have ended, with all they have stored, as ``Handle.delete`` does."""
        return self.change(deleting(), after=after)

    async def _change_one(self, verb: Verb, status: Status) -> Changed:
        try:
            await verb.change(self._handle_of(status.workflow, status.id))
        except StoreError:
            raise  # the others would not fare better
        except Exception as error:  # noqa: BLE001 - it is reported, and the others are changed
            return Changed(workflow=status.workflow, id=status.id, error=error)
        return Changed(workflow=status.workflow, id=status.id)
