"""Consumers: handlers of events. Each event is handled once, by a hidden actor whose only state is a mark (G5).

The events of one actor form a group, handled in their order: the hidden actor keeps the mark of the last one
permanently. Other events stand alone under their id: the hidden actor of that id keeps its reply for a window, and is
deleted with it.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.actors.definition import Actor, field
from holdfast.actors.kind import Kind, Registrar
from holdfast.actors.record import Call
from holdfast.codec.stored import stored
from holdfast.duration import Duration
from holdfast.errors import ConfigurationError
from holdfast.functions import told
from holdfast.messaging.outbox import stands_alone
from holdfast.retry import Retry

POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class EventHandler(Actor):
    """The base of the hidden actors of all consumers.

    The events of a group up to the place ``mark`` have been handled, except for those at the places in ``set_aside``,
    which are parked.
    """

    mark: int = 0
    set_aside: list[int] = field(default_factory=list[int])

    def is_repeat(self, place: int) -> bool:
        """Whether the event at this place of the group has been handled."""
        return 0 < place <= self.mark and place not in self.set_aside

    def note(self, place: int, *, handled: bool) -> None:
        """Record the outcome of an event: it was handled, or it was parked."""
        if not place or self.is_repeat(place):
            return
        self.mark = max(self.mark, place)
        others = [each for each in self.set_aside if each != place]
        self.set_aside = others if handled else [*others, place]


class Place(Struct, frozen=True):
    """The place of an event in its group. The rest of its message is ignored."""

    place: int


place_of: Final = stored(Place, "the place of a consumer")


def consumer_actor(
    app: Registrar,
    function: Callable[..., Any],
    event: Any,
    *,
    name: str,
    retry: Retry,
    poison: str,
    window: Duration,
    timeout: Duration | None,
) -> None:
    """Register the hidden actor that runs ``function`` for each event."""
    answer = _answer_of(function, event)

    async def handle(self: EventHandler, place: int, id: str, event: Any) -> Any:  # noqa: ARG001 - the id is its request's
        if self.is_repeat(place):
            return None
        result = await function(event)
        self.note(place, handled=True)
        return result

    handle.__annotations__ = {"place": int, "id": str, "event": event, "return": answer}
    options = {"app": app, "name": name, "retry": retry, "poison": poison, "reply_window": window, "timeout": timeout}
    made: Any = types.new_class(name, (EventHandler,), options, lambda namespace: namespace.update(handle=handle))
    kind: Kind = made.kind
    kind.passing = stands_alone
    kind.note_parked = _note_parked
    kind.is_repeat = _is_repeat


def _is_repeat(actor: Any, call: Call) -> bool:
    """Whether an event was handled before, so that the function does not run."""
    return bool(actor.is_repeat(place_of(bytes(call.args)).place))


def _note_parked(actor: Any, call: Call) -> None:
    """Record that an event was parked: later events of its group may be handled before it."""
    actor.note(place_of(bytes(call.args)).place, handled=False)


def _answer_of(function: Callable[..., Any], event: Any) -> Any:
    """The type that the function returns. Raises ``ConfigurationError`` if it cannot handle this class of events."""
    what = f"consumer {function!r}"
    if not inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"a consumer must be an async def, got {told(function)}; for blocking code await "
            "asyncio.to_thread(...) in it"
        )
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in POSITIONAL or any(_is_required(each) for each in parameters[1:]):
        raise ConfigurationError(f"{what} must take one argument, the event")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise ConfigurationError(f"an annotation of {what} cannot be resolved: {error}") from error
    hint = hints.get(parameters[0].name, event)
    if isinstance(hint, type) and not issubclass(event, hint):
        raise ConfigurationError(f"{what} takes {hint.__name__}, but is declared for {event.__name__}")
    return hints.get("return", Any)


def _is_required(parameter: inspect.Parameter) -> bool:
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in optional
