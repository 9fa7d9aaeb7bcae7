"""What an app offers to code that is not async."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from holdfast.runtime.sync import SyncBridge

if TYPE_CHECKING:
    from holdfast.app import App


class Bridges:
    """The ways into an app from code that has no event loop."""

    def sync(self, *, worker: bool = False) -> SyncBridge:
        """The bridge for code that is not async: ``with app.sync() as run: run(checkout.start(order))``."""
        return SyncBridge(cast("App", self), worker=worker)
