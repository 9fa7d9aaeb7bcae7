"""Waking the owner of an entity, here or elsewhere, after something was written for it: a hint, which may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.ports import Home


def wake(partition: str, home: Home, host: Host | None) -> None:
    """Something was written for an entity: whoever works on it, here or elsewhere, looks at it.

    Where rings are paid for, nobody else is called for what is looked at here. If somebody else holds it, he finds
    the revision of the head moved on before he lets go of it.
    """
    if home.invoker is None:
        home.doorbell.ring(partition)
        if host is not None:
            host.check(partition)
    elif host is None or not host.check(partition):
        home.doorbell.ring(partition)


def wake_at(partition: str, due_at: int, home: Home, host: Host | None) -> None:
    """There will be something to do for an entity at a time (milliseconds): a worker looks at it then.

    A worker's sweep sees ahead. It may miss only what comes soon, which it is rung for.
    """
    if host is not None:
        host.check_at(partition, due_at)
    elif home.invoker is not None:
        home.invoker.wake_at(partition, due_at)
    else:
        home.doorbell.ring(partition)


def notify(partition: str, home: Home) -> None:
    """There is news of an entity for those who wait for it, and nothing to do. Where rings are paid for, they look by
    themselves.
    """
    if home.invoker is None:
        home.doorbell.ring(partition)
