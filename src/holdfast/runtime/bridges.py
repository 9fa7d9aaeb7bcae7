"""What an app offers to code that is not async."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from holdfast.runtime.sync import SyncBridge

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.runtime.lambda_ import Front, LambdaHandler


class Bridges:
    """The ways into an app from code that has no event loop. ``published`` is the name of the version of a function of
    Lambda that runs it, if it was published.
    """

    published: str = ""

    def sync(self, *, worker: bool = False) -> SyncBridge:
        """The bridge for code that is not async: ``with app.sync() as run: run(checkout.start(order))``."""
        return SyncBridge(cast("App", self), worker=worker)

    def lambda_handler(self, *fronts: Front) -> LambdaHandler:
        """What AWS Lambda calls: ``handler = app.lambda_handler()`` in the module that the function's settings name.

        It takes rings and messages from SQS, sweeps, and does what it is asked to directly: see the page "On AWS
        Lambda". Nothing is opened before the first invocation. ``fronts`` are asked first: functions that answer events
        of a shape of their own, such as HTTP requests, with something to await, and others with ``None``.
        """
        from holdfast.runtime.lambda_ import (  # noqa: PLC0415 - whoever has no function does not load it
            LambdaHandler,
            published_version,
        )

        self.published = published_version(os.environ)
        return LambdaHandler(cast("App", self), fronts)
