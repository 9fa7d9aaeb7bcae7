"""Looking up executions, and answering callbacks: what a client does that is not bound to one workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct

from holdfast.codec.typed import encode_untyped
from holdfast.coordination.offload import SealedValue
from holdfast.errors import InvalidInput, StepFailed, StoreUnusable
from holdfast.failure import describe
from holdfast.finder import Sought
from holdfast.keys import check_limit, check_text
from holdfast.paging import refuse_scan
from holdfast.ports import Home
from holdfast.texts import masked
from holdfast.workflows.callback_tokens import TokenScope, invalid_token, token_scope, verify_token
from holdfast.workflows.messages import answer_once, send, was_answered
from holdfast.workflows.record import (
    NO_VALUE,
    OPEN,
    PARTITION_PREFIX,
    STATUSES,
    CallbackAnswer,
    ExecutionRef,
    Named,
    check_tags,
    decode_record,
    is_there,
    partition_of,
)
from holdfast.workflows.status import Status, WaitsFor, status_of

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Connect, Runtime


FRESH_SECONDS: Final = 1.0
"""So long after a token was verified its answer is written without another look; the write has conditions itself."""


class StatusPage(Struct, frozen=True):
    """Some executions, newest first; pass ``cursor`` as ``after`` for the next ones, ``None`` means that was all."""

    executions: tuple[Status, ...]
    cursor: str | None


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class Selection(Struct, frozen=True, kw_only=True):
    """Which executions to list. Everything given must hold. ``among`` are statuses of which it has one, ``beginning``
    is what the ids begin with. ``error`` is in the line that says why it failed. ``ended_before`` admits only what has
    ended, and then. ``scan``: all that the home holds may be read to find them, where that is billed.
    """

    workflow: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: dict[str, str] = {}
    parent: ExecutionRef | None = None
    root: ExecutionRef | None = None
    among: tuple[str, ...] = ()
    beginning: str = ""
    waits_for: WaitsFor | None = None
    error: str = ""
    ended_before: datetime | None = None
    scan: bool = False

    def sought(self) -> Sought | None:
        """The part of it that an index may find; what has ended before a time was created before it."""
        ends = [_ms(at) + 1 for at in (self.until, self.ended_before) if at is not None]
        if not (self.tags or self.since or ends):
            return None
        since = -(2**62) if self.since is None else _ms(self.since) - 1
        return Sought(self.tags, since, min(ends, default=2**62))

    def admits(self, status: Status) -> bool:
        """Whether a status is one of the selection, but for the name of its workflow."""
        return (
            self.status in {None, status.status}
            and (not self.among or status.status in self.among)
            and status.id.startswith(self.beginning)
            and (self.parent is None or status.parent == self.parent)
            and (self.root is None or status.root == self.root)
            and (self.since is None or status.created_at >= self.since)
            and (self.until is None or status.created_at < self.until)
            and (self.ended_before is None or (status.ended_at is not None and status.ended_at < self.ended_before))
            and self.tags.items() <= status.tags.items()
            and self.error.casefold() in masked(status.error or "").casefold()
            and (self.waits_for is None or self.waits_for.is_one_of(status.waits))
        )


def select(  # noqa: PLR0913 - one for each thing to find them by
    workflow: str | None = None,
    *,
    status: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    tags: dict[str, str] | None = None,
    parent: Named | None = None,
    root: Named | None = None,
    beginning: str = "",
    waits_for: str | None = None,
    error: str = "",
    ended_before: datetime | None = None,
    scan: bool = False,
) -> Selection:
    """A selection, checked: ``waits_for`` is a kind, or ``kind:name``. Raises ``InvalidInput``."""
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"no status is called {status!r}; there are: {', '.join(STATUSES)}")
    times: tuple[Any, ...] = (since, until, ended_before)
    for time in times:
        if time is not None and not isinstance(time, datetime):
            raise InvalidInput(f"a time must be a datetime with its time zone, got {time!r}")
        if time is not None and time.tzinfo is None:
            raise InvalidInput(
                f"{time} has no time zone, so nobody can say when it is; write datetime.now(UTC), for example"
            )
    return Selection(
        workflow=workflow,
        status=status,
        since=since,
        until=until,
        tags=check_tags(tags or {}),
        parent=None if parent is None else ExecutionRef(parent.workflow, parent.id),
        root=None if root is None else ExecutionRef(root.workflow, root.id),
        beginning=beginning,
        waits_for=None if waits_for is None else WaitsFor.parse(waits_for),
        error=error,
        ended_before=ended_before,
        scan=scan,
    )


async def list_executions(
    runtime: Runtime, selection: Selection, *, after: str | None, limit: int, most_read: int | None = None
) -> StatusPage:
    """One page of executions. Status and workflow are found by the store, the rest among what it finds; a page is
    short, although there are more, once ``most_read`` were looked through. Raises ``InvalidInput`` if the whole table
    would be read, unless the selection says that it may be.
    """
    check_limit(limit)
    await refuse_scan(runtime.home, scan=selection.scan)
    if after is not None:
        check_text("the cursor of a page", after)
    prefix = PARTITION_PREFIX if selection.workflow is None else partition_of(selection.workflow, selection.beginning)
    found: list[Status] = []
    looked_at = 0
    while True:
        heads, after = await _next_heads(runtime.home, prefix, selection, after, limit - len(found))
        looked_at += len(heads)
        await asyncio.sleep(0)  # a store that is a file answers at once, and others wait for the loop
        now = runtime.clock.now_ms()
        standing = (head for head in heads if is_there(head, now))
        found += [status for status in map(status_of, standing) if selection.admits(status)]
        if after is None or len(found) >= limit or (most_read is not None and looked_at >= most_read):
            return StatusPage(tuple(found), after)
        await asyncio.sleep(0)  # there may be many more to look through, and others on this loop


async def _next_heads(
    home: Home, prefix: str, selection: Selection, after: str | None, limit: int
) -> tuple[Sequence[Item], str | None]:
    """Some heads among which all of the selection are, and where to go on."""
    sought = selection.sought()
    if home.finder is None or sought is None:
        page = await home.store.scan(prefix, status=selection.status, after=after, limit=limit)
        return page.items, page.cursor
    names = await home.finder.find(prefix, sought, status=selection.status, after=after, limit=limit)
    heads = [await _readable(name, home) for name in names.names]
    return [head for head in heads if head is not None], names.cursor


async def _readable(name: str, home: Home) -> Item | None:
    """A head; ``None`` if what it says is missing or damaged: nothing is known then of its tags and times."""
    try:
        return await home.store.get(name)
    except SealedValue:
        raise
    except StoreUnusable:
        return None


class CallbackHandle:
    """The outside of a callback: the holder of the token may answer it, once."""

    def __init__(self, token: str, connect: Connect) -> None:
        self._token = token
        self._connect = connect
        self._seen: tuple[float, TokenScope, Item] | None = None

    async def verify(self) -> None:
        """Raise ``InvalidToken`` unless the token is genuine. Code that takes outside answers checks this before it
        reads what comes with the token.
        """
        found = await self._look(self._connect())
        self._seen = (asyncio.get_running_loop().time(), *found)

    async def complete(self, value: Any = None) -> None:
        """Answer with a value. A repeat of the answer that was taken changes nothing, and is taken too (G11).

        Raises ``InvalidToken`` if the token is wrong, used up by another answer, or its execution has ended.
        """
        runtime = self._connect()
        found = await self._verified(runtime)  # before anything is made of the value
        data = encode_untyped(value, "the callback's value", runtime.limit_bytes)
        await self._answer(runtime, *found, value=Raw(data))

    async def fail(self, message: str, *, error_type: str = "CallbackFailed") -> None:
        """Answer with a failure: the body sees ``StepFailed`` with this type and message. Repeats as ``complete``."""
        runtime = self._connect()
        found = await self._verified(runtime)
        await self._answer(runtime, *found, error=callback_error(error_type, message))

    async def answer(self, *, value: Raw = NO_VALUE, error: Exception | None = None) -> None:
        """Answer with a value that is encoded already, or with an error that the body sees as itself. Raises, and takes
        repeats, as ``complete``.
        """
        runtime = self._connect()
        await self._answer(runtime, *await self._verified(runtime), value=value, error=error)

    async def heartbeat(self) -> None:
        """Report that the work continues; the callback's heartbeat time-out starts again."""
        runtime = self._connect()
        scope, head = await self._verified(runtime)
        if not _takes_answers(head, scope):
            raise invalid_token()
        answer = CallbackAnswer(run=scope.run, op=scope.op)
        if not await send(scope.partition, answer, runtime.home, runtime.host, runtime.sender, runtime.clock.now_ms()):
            raise invalid_token()

    async def _answer(
        self,
        runtime: Runtime,
        scope: TokenScope,
        head: Item,
        *,
        value: Raw = NO_VALUE,
        error: Exception | None = None,
    ) -> None:
        answer = CallbackAnswer(
            run=scope.run, op=scope.op, value=value, error=None if error is None else describe(error)
        )
        now = runtime.clock.now_ms()
        if _takes_answers(head, scope):
            taken = await answer_once(scope, answer, runtime.home, runtime.host, now)
        else:
            taken = await was_answered(runtime.home.store, scope, answer)
        if not taken:
            raise invalid_token()

    async def _verified(self, runtime: Runtime) -> tuple[TokenScope, Item]:
        seen, self._seen = self._seen, None
        if seen is not None and asyncio.get_running_loop().time() - seen[0] < FRESH_SECONDS:
            return seen[1:]
        return await self._look(runtime)

    async def _look(self, runtime: Runtime) -> tuple[TokenScope, Item]:
        scope = token_scope(self._token)
        if not scope.partition.startswith(PARTITION_PREFIX):
            raise invalid_token()  # not to ask the store, which may have something to say about the key
        head = await runtime.home.store.get(scope.partition)
        if head is None:
            raise invalid_token()
        verify_token(self._token, decode_record(head.body).secret)
        return scope, head


def callback_error(type: str, message: str) -> StepFailed:
    """What a body sees of a callback that was answered with a failure."""
    return StepFailed(check_text("the type of an error", type), check_text("the message of an error", message))


def _takes_answers(head: Item, scope: TokenScope) -> bool:
    return head.status in OPEN and decode_record(head.body).run == scope.run
