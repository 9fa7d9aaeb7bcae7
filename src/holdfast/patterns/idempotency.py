"""Idempotent handlers of an app, and the records of their keys."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from holdfast.duration import Duration
from holdfast.errors import DuplicateName, UnknownName
from holdfast.kernel.runtime import Declares
from holdfast.keys import check_name
from holdfast.patterns.idempotent import (
    Handler,
    HandlerOptions,
    KeyRecords,
    OnReplay,
    around_async,
    around_sync,
)
from holdfast.patterns.keys import Parts

P = ParamSpec("P")
R = TypeVar("R")


# ── Idempotent handlers ─────────────────────────────────────────────────────────────────────────────────────────


def idempotent(  # noqa: PLR0913 - each option is one decision of the user's
    app: Declares,
    *,
    key: Parts,
    payload: Parts | None = None,
    window: Duration = "24h",
    lease: Duration = "30s",
    wait: Duration = 0,
    final: tuple[type[Exception], ...] = (),
    max_crashes: int = 5,
    cache: int = 0,
    on_replay: OnReplay | None = None,
    name: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function, async or not, that runs once for each key; repeats get its result, or its final error.

    ``key`` is a path such as ``"order.id"``, a function of the arguments, or a tuple of these. The same key with
    another payload (by default: all arguments) is refused with ``IdempotencyMismatch`` (G11). An outcome counts for
    ``window``. While one attempt runs, other calls get ``Busy``, or ``wait`` for it. An error of a ``final`` class,
    or
    ``Terminal``, is recorded; after any other error the key may be used again at once. An attempt that dies leaves
    its key when its ``lease`` lapses; after ``max_crashes`` crashes the key is parked. On AWS Lambda the lease is
    the rest of the function's time. ``cache`` is how many results are also kept in memory; ``on_replay`` may change
    what a repeat gets.
    """
    options = HandlerOptions(
        key=key,
        payload=payload,
        window=window,
        lease=lease,
        wait=wait,
        final=final,
        max_crashes=max_crashes,
        cache=cache,
        on_replay=on_replay,
        name=name,
    )

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        handler = Handler(function, options, app.runtime, app.registry.errors)
        check_name("handler", handler.name)
        if handler.name in app.registry.idempotent:
            raise DuplicateName(f"two idempotent handlers have the name {handler.name!r}; rename one: name=...")
        app.registry.idempotent[handler.name] = handler
        if inspect.iscoroutinefunction(function):
            return cast("Callable[P, R]", around_async(handler, cast("Callable[P, Any]", function)))
        return around_sync(handler, function, lambda: app.runtime().loop)

    return declare


def idempotency(app: Declares, handler: str) -> KeyRecords:
    """The records of an idempotent handler's keys: read one, or delete it. Raises ``UnknownName``."""
    try:
        found: Handler = app.registry.idempotent[handler]
    except KeyError:
        known = ", ".join(sorted(app.registry.idempotent)) or "none"
        raise UnknownName(f"no idempotent handler has the name {handler!r} here; there are: {known}") from None
    return found.keys
