"""Whether a worker can be at work, for callers that wait: a wait without a worker must not be a silent one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.ports import Home

_logger = logging.getLogger("holdfast")


class Presence:
    """What is known here of the workers of a home."""

    __slots__ = ("_home", "_is_told")

    def __init__(self, home: Home) -> None:
        self._home = home
        self._is_told = False

    def missing(self, partition: str, host: Host | None) -> str:
        """Why no worker can be at work on an entity; empty if one may be. Where processes are not heard of, or are
        called when there is work, nothing is known.
        """
        home = self._home
        if (
            not home.hears_peers
            or home.invoker is not None
            or (host is not None and host.model_of(partition) is not None)
        ):
            return ""
        if any(home.doorbell.alive(peer) for peer in home.doorbell.peers()):
            return ""  # perhaps only a client: that is not known here
        here = "this process runs no worker" if host is None else "the worker of this process has no code for it"
        return (
            f"nobody works on it: {here}, and no other process has {home.url} open. Start one: `holdfast run "
            "MODULE:APP`, or `async with app.worker():`"
        )

    def report(self, what: str, partition: str, host: Host | None) -> None:
        """Warn in the log, once, if a caller waits and no worker can be at work."""
        missing = self.missing(partition, host)
        if missing and not self._is_told:
            _logger.warning("%s is waited for, and %s", what, missing)
        self._is_told = bool(missing)
