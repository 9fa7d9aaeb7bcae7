"""State machines in Amazon States Language, as workflows on the same journal, timers and steps.

    checkout = app.state_machine("checkout", "checkout.asl.json", tasks={"charge": charge})
    handle = await checkout.start({"cart": 7}, id="order-17")

Every public name is loaded when it is first used, as in ``holdfast`` itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.asl.connections import Connection as Connection
    from holdfast.asl.declaring import StateMachine as StateMachine
    from holdfast.asl.errors import Error as Error
    from holdfast.asl.sources import definition_of as definition_of
    from holdfast.asl.targets import InBody as InBody
    from holdfast.asl.targets import Mock as Mock
    from holdfast.asl.teststate import StateOutcome as StateOutcome
    from holdfast.asl.teststate import test_state as test_state
    from holdfast.asl.validation import Diagnostic as Diagnostic
    from holdfast.asl.validation import Profile as Profile
    from holdfast.asl.validation import validate as validate

PUBLIC_NAMES = {
    "connections": "Connection",
    "declaring": "StateMachine",
    "errors": "Error",
    "sources": "definition_of",
    "targets": "InBody Mock",
    "teststate": "StateOutcome test_state",
    "validation": "Diagnostic Profile validate",
}
"""All that is public here, by module."""

_MODULE_OF = {name: module for module, names in PUBLIC_NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  # loaded on demand


def __getattr__(name: str) -> Any:
    try:
        module = _MODULE_OF[name]
    except KeyError:
        raise AttributeError(f"module 'holdfast.asl' has no attribute {name!r}") from None
    return getattr(import_module(f"holdfast.asl.{module}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
