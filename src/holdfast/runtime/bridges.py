"""What an app offers to code that is not async."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.sync import SyncBridge

if TYPE_CHECKING:
    from holdfast.app import App


def sync(app: App, *, worker: bool = False) -> SyncBridge:
    """The bridge for code that is not async: ``with app.sync() as run: run(checkout.start(order))``."""
    return SyncBridge(app, worker=worker)
