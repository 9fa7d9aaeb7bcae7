"""Consumers: handlers of events. Each event is handled once, by a hidden actor that has nothing but a mark (G5).

Events of one actor are one group, handled in their order: the hidden actor remembers the last, for ever. Other events
stand alone under their id: the hidden actor of that id keeps its reply for a window.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Final

from holdfast.actors.definition import Actor, Registrar
from holdfast.duration import Duration
from holdfast.errors import ConfigurationError
from holdfast.retry import Retry

CONSUMER_MARK: Final = "!"
"""Begins the names of the hidden actors that handle events."""


class EventHandler(Actor):
    """What the hidden actors of all consumers have in common: ``mark`` is the last place that was handled."""

    mark: int = 0

    def has_handled(self, place: int) -> bool:
        """Whether an event of this group was handled before. One that was set aside comes behind later ones."""
        return place <= self.mark and not self._turn.unparked


def consumer_actor(
    app: Registrar,
    function: Callable[..., Any],
    event: Any,
    *,
    name: str,
    retry: Retry,
    poison: str,
    window: Duration,
) -> None:
    """Register the hidden actor that runs ``function`` for each event."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    if len(parameters) != 1:
        raise ConfigurationError(f"consumer {name!r} takes one argument, the event; {function!r} takes another number")
    if not inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"a consumer is an async def: {function!r} is not; for blocking code call a step in it"
        )

    async def handle(self: EventHandler, place: int, id: str, event: Any) -> Any:  # noqa: ARG001 - the id is its request's
        if place and self.has_handled(place):
            return None
        result = await function(event)
        self.mark = max(self.mark, place)
        return result

    hints = typing.get_type_hints(function, include_extras=True)
    handle.__annotations__ = {"place": int, "id": str, "event": event, "return": hints.get("return", type(None))}
    options = {"app": app, "name": CONSUMER_MARK + name, "retry": retry, "poison": poison, "reply_window": window}
    types.new_class(name, (EventHandler,), options, lambda namespace: namespace.update(handle=handle))
