"""Planted bugs of queues: each breaks one rule that a decision, a slot or a place depends on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from msgspec.structs import replace
from tests.simulation.plants import each_write, without

from holdfast.flow import beginning, deciding, early
from holdfast.flow.record import PREFIX
from holdfast.items import EXISTS, EpochIs, OwnerIs, Update, Write
from holdfast.workflows import waiting_turn


def is_decision(write: Write) -> bool:
    return isinstance(write, Update) and write.partition.startswith(PREFIX) and isinstance(write.when, OwnerIs)


def unfenced_decision() -> AbstractContextManager[object]:
    """A decision is written whoever owns the gate."""
    return each_write(lambda write: replace(write, when=EXISTS) if is_decision(write) else write)


def begun_before_the_decision() -> AbstractContextManager[object]:
    """Executions begin while the decision is being written."""
    write = deciding._write

    async def early(gate: Any, decision: Any, declared: Any, host: Any) -> None:
        await asyncio.gather(deciding._begin(gate, decision, host), write(gate, decision, declared, host))

    return mock.patch.object(deciding, "_write", early)


def claim_without_the_epoch() -> AbstractContextManager[object]:
    """An execution that waits is claimed under any epoch."""
    claim = beginning._claim

    def unguarded(partition: str, epoch: int, host: Any) -> Update:
        update = claim(partition, epoch, host)
        return replace(update, when=without(update.when, EpochIs))

    return mock.patch.object(beginning, "_claim", unguarded)


def slot_of_a_dead_permission() -> AbstractContextManager[object]:
    """A slot is kept as long as its execution is open, even if it waits again."""

    def look(head: Any, slot: Any, closed: Sequence[str]) -> bool:
        return head.status in closed

    return mock.patch.object(deciding, "_is_over", look)


def free_on_the_hint() -> AbstractContextManager[object]:
    """A slot is free as soon as a hint says that its execution may have ended."""
    look = deciding._is_over

    def believing(head: Any, slot: Any, closed: Sequence[str]) -> bool:
        return look(head, slot, closed) or head.status == "SUSPENDED"

    return mock.patch.object(deciding, "_is_over", believing)


def place_kept() -> AbstractContextManager[object]:
    """A cursor in memory says what has been admitted, in place of deleting the places."""
    return mock.patch.object(deciding, "_deletes", return_value=())


def slot_kept_after_terminate() -> AbstractContextManager[object]:
    """Only executions that ended by themselves give their slot back."""
    look = deciding._is_over

    def stubborn(head: Any, slot: Any, closed: Sequence[str]) -> bool:
        return look(head, slot, [each for each in closed if each != "TERMINATED"])

    return mock.patch.object(deciding, "_is_over", stubborn)


def place_deleted_before_its_head() -> AbstractContextManager[object]:
    """A place whose head is not there is deleted, and no head is put in the way of a start that is late."""

    async def gone(*_: Any) -> bool:
        return True

    stack = ExitStack()
    stack.enter_context(mock.patch.object(waiting_turn, "_give_up", gone))
    stack.enter_context(mock.patch.object(early, "UNSEEN_MS", 0))
    return stack
