"""Waking the owner of an entity, here or elsewhere, after something was written for it: a hint, which may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.hints import News

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.ports import Home


class Checks(Protocol):
    """The host of this process, for those who have it check an entity."""

    clock: Clock
    draining: bool

    def check(self, partition: str) -> bool:
        """Something may have happened to this entity. Answers whether it is checked here, now or soon."""
        ...

    def check_at(self, partition: str, due_at: int) -> None:
        """There will be something to do for this entity then (milliseconds)."""
        ...


def wake(partition: str, home: Home, host: Checks | None) -> None:
    """Something was written for an entity: wake its owner, here or elsewhere.

    Where wake-ups are paid for, no other process is called for what is checked here. If another process owns it, that
    one finds the revision of the head moved on before it releases it.
    """
    if home.invoker is None:
        home.doorbell.ring(partition)
        if host is not None:
            host.check(partition)
    elif host is None or not host.check(partition):
        home.doorbell.ring(partition)


def wake_at(partition: str, due_at: int, home: Home, host: Checks | None) -> None:
    """There will be something to do for an entity at a time (milliseconds): a worker looks at it then.

    A worker's sweep sees ahead. It may miss only what comes soon, and is woken for that.
    """
    if host is not None:
        host.check_at(partition, due_at)
    elif home.invoker is not None:
        home.invoker.wake_at(partition, due_at)
    else:
        home.doorbell.ring(partition)


def notify(partition: str, home: Home) -> None:
    """There is news of an entity for those that wait for it, and nothing to do. Where wake-ups are paid for, they look
    by themselves.
    """
    if home.invoker is None:
        home.doorbell.ring(News(partition))
