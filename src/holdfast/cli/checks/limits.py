"""Limits of calls: whether one was stopped and forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.checks.finding import OK, WARN, Finding
from holdfast.flow.overrides import status_of

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

NAME: Final = "limits"


async def check_limits(runtime: Runtime) -> list[Finding]:
    """Whether the limits of the code, apart from their keys, let calls begin."""
    limits = runtime.registry.limits.values()
    stand = [await status_of(runtime, each.partition, "", each.numbers) for each in limits]
    found = [
        Finding(
            WARN,
            NAME,
            f"{each.app}/{each.name} has no permits, and calls wait ({each.waiting:,}): "
            f"holdfast limit reset {each.name}",
        )
        for each in stand
        if each.permits == 0 and each.waiting
    ]
    return found or [Finding(OK, NAME, f"{len(stand)} looked at: they let calls begin")] if stand else []
