"""Idempotent handlers of an app, and the records of their keys."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from holdfast.duration import Duration
from holdfast.errors import DuplicateName, UnknownName
from holdfast.kernel.runtime import Runtime
from holdfast.patterns.idempotent import (
    Handler,
    HandlerOptions,
    KeyRecords,
    OnReplay,
    around_async,
    around_sync,
)
from holdfast.patterns.keys import Parts
from holdfast.registrations import Registrations, check_name

P = ParamSpec("P")
R = TypeVar("R")


class Idempotency:
    """What an app offers for handlers that are called again. Nothing here reads or writes before it is used."""

    registry: Registrations

    def __init__(self) -> None:
        self._idempotent: dict[str, Handler] = {}

    def runtime(self) -> Runtime:
        """The open app, as the patterns see it. Raises ``ConfigurationError`` if it is not open."""
        raise NotImplementedError

    # ── Idempotent handlers ─────────────────────────────────────────────────────────────────────────────────────────

    def idempotent(  # noqa: PLR0913 - each option is one decision of the user's
        self,
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
            handler = Handler(function, options, self.runtime, self.registry.errors)
            check_name("handler", handler.name)
            if handler.name in self._idempotent:
                raise DuplicateName(f"two idempotent handlers have the name {handler.name!r}; rename one: name=...")
            self._idempotent[handler.name] = handler
            if inspect.iscoroutinefunction(function):
                return cast("Callable[P, R]", around_async(handler, cast("Callable[P, Any]", function)))
            return around_sync(handler, function, lambda: self.runtime().loop)

        return declare

    def idempotency(self, handler: str) -> KeyRecords:
        """The records of an idempotent handler's keys: read one, or delete it. Raises ``UnknownName``."""
        try:
            return self._idempotent[handler].keys
        except KeyError:
            known = ", ".join(sorted(self._idempotent)) or "none"
            raise UnknownName(f"no idempotent handler has the name {handler!r} here; there are: {known}") from None
