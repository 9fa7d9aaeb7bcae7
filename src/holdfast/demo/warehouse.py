"""The warehouse of the demonstration, in a process of its own: it packs for a while, then answers by callback token."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, Final

import holdfast as hf
from holdfast.demo.loopback import Answer, serve
from holdfast.runtime.sync import SyncBridge

PACKING_SECONDS: Final = (0.4, 1.5)
BREAKS_EASILY: Final = "VASE-CRYSTAL"

_logger = logging.getLogger("holdfast.demo.warehouse")


class Warehouse:
    """Answers every request for a parcel once; a step that was repeated after a crash asks twice."""

    def __init__(self, app: hf.App, run: SyncBridge) -> None:
        self._app = app
        self._run = run

    def handle(self, _path: str, data: dict[str, Any]) -> Answer:
        """One request: accept it, and answer the token later."""
        order, token = data["order"], data["token"]
        callback = self._app.callback(token)
        if BREAKS_EASILY in data["skus"]:
            answer = partial(callback.fail, "the vase broke while it was packed", error_type="Damaged")
        else:
            answer = partial(callback.complete, {"tracking": f"3S{order[-4:]}NL"})
        timer = threading.Timer(Random(order).uniform(*PACKING_SECONDS), self._answer, (order, answer))
        timer.daemon = True
        timer.start()
        return 202, {}

    def _answer(self, order: str, answer: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            self._run(answer())
        except hf.InvalidToken:
            _logger.info("%s was answered before", order)


def main(home_url: str) -> None:
    """Serve until standard input ends."""
    app = hf.App("warehouse", home=home_url)
    with app.sync() as run:
        serve(Warehouse(app, run).handle)


if __name__ == "__main__":
    main(sys.argv[1])
