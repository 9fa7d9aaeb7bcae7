"""Which function of a home works on which entities, if there are several.

It follows from the URL of the home, which all processes share: ``routes=wf/render:pdf,actor/Cart:carts`` leaves the
executions of the workflow ``render`` to the function ``pdf``. What is not named is left to ``main``. So a wake-up goes
to the queue of the right function, whichever process sends it. One that reaches another function is passed on.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.backends.aws import names
from holdfast.errors import ConfigurationError
from holdfast.keys import SEPARATOR

MAIN: Final = "main"
"""The function for everything that is not left to another one."""


class Routes(Struct, frozen=True):
    """The functions by the beginnings of partitions. ``own`` is the one that this process is; ``None`` for workers of
    users, who work on everything.
    """

    functions: dict[str, str] = {}
    own: str | None = None

    def function_of(self, partition: str) -> str:
        """The name of the function that works on an entity.

        >>> Routes({"wf#render": "pdf"}).function_of("wf#render#17")
        'pdf'
        """
        kind, _, rest = partition.partition(SEPARATOR)
        return self.functions.get(f"{kind}{SEPARATOR}{rest.partition(SEPARATOR)[0]}", MAIN)

    def queue_of(self, partition: str) -> str:
        """Which queue the wake-ups of an entity go to, for ``names.queue``."""
        return names.doorbell(self.function_of(partition))

    def serves(self, partition: str) -> bool:
        """Whether this process works on an entity."""
        return self.own is None or self.function_of(partition) == self.own

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of all functions, that of ``main`` first."""
        return tuple(names.doorbell(each) for each in (MAIN, *sorted(set(self.functions.values()) - {MAIN})))


def parse_routes(text: str | None, own: str | None) -> Routes:
    """The routes in the option of a URL. Raises ``ConfigurationError``.

    >>> parse_routes("wf/render:pdf", None).functions
    {'wf#render': 'pdf'}
    """
    found: dict[str, str] = {}
    for each in (text or "").split(",") if text else ():
        place, _, function = each.rpartition(":")
        kind, _, name = place.partition("/")
        if not (kind and name and function):
            raise ConfigurationError(
                f"{each!r} is no route: write routes=wf/<workflow>:<function>,actor/<Actor>:<function>"
            )
        found[f"{kind}{SEPARATOR}{name}"] = function
    return Routes(found, own)


def routes_text(functions: dict[str, str]) -> str:
    """The option of a URL for these routes."""
    return ",".join(f"{place.replace(SEPARATOR, '/', 1)}:{function}" for place, function in sorted(functions.items()))
