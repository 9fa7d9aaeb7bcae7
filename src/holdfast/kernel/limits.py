"""How much one process takes on, and how long it waits."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from holdfast.errors import InvalidInput

MAY_BE_ZERO: Final = frozenset({"linger_seconds", "near_seconds", "courtesy_ms", "resident", "collect_after"})
"""The limits of which there may be nothing."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much a process takes on, and how long it waits. Each is a default that an app may change.

    ``lease_ms`` decides how soon others may take over from a process that hangs. ``linger_seconds`` is how long an
    entity that waits keeps its lease before it is suspended, ``near_seconds`` how long if it knows that it goes on by
    then. ``resident`` is how many suspended ones stay in memory, ``running`` how many are worked on at once.
    ``sweep_seconds`` is how often overdue heads are looked for, ``purge_seconds`` how often expired ones are deleted.
    ``most_deaths`` is how many processes in a row may die while they work on an execution: then it is parked.
    ``stalled_seconds`` is when code that blocks the event loop is reported, ``slice_seconds`` how long the calls
    of one actor run before others get their turn. ``collect_after`` is how many new objects there are before Python
    looks for unreachable cycles in a process with a worker; with 0 it looks when the process has it look.

    In a process that is called, such as a function of Lambda, leases last for ``called_lease_ms``, but not beyond the
    end of the invocation; and of more than ``called_running`` entities, others are worked on by other processes.
    """

    lease_ms: int = 15_000
    called_lease_ms: int = 60_000
    called_running: int = 50
    linger_seconds: float = 0.2
    near_seconds: float = 3.0
    sweep_seconds: float = 5.0
    purge_seconds: float = 60.0
    courtesy_ms: int = 100
    stalled_seconds: float = 0.1
    slice_seconds: float = 0.005
    resident: int = 20_000
    running: int = 2_000
    retry_turn_seconds: float = 1.0
    most_deaths: int = 5
    collect_after: int = 20_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value: Any = getattr(self, name)  # whatever its annotation says
            if not isinstance(value, int | float) or not (value > 0 or (value == 0 and name in MAY_BE_ZERO)):
                raise InvalidInput(f"the limit {name} is a number above 0, not {value!r}")
