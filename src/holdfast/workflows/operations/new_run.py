"""Going on as a new run, with an empty journal."""

from __future__ import annotations

from typing import Any, NoReturn

from holdfast.errors import ContinueAsNew, Evicted
from holdfast.workflows.saga import refuse_new_run
from holdfast.workflows.scope import BodyScope, activation_for


def continue_as_new(*args: Any, **kwargs: Any) -> NoReturn:
    """End this run and go on as a new one of the same execution: other arguments, an empty journal.

    Signals not yet taken are carried over; everything else that is still running is cancelled. Refused inside
    ``hf.saga()`` (``InvalidInput``), and with arguments over the app's ``limit_bytes`` (``PayloadTooLarge``).
    """
    activation = activation_for("hf.continue_as_new")
    if activation.loop.evicting:
        raise Evicted
    refuse_new_run()
    scope: BodyScope = activation.context
    raise ContinueAsNew(scope.bind(args, kwargs))
