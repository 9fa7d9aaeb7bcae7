"""What a check of ``holdfast doctor`` finds."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.texts import shell_line
from holdfast.workflows.record import id_of, workflow_of

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

EXAMPLES: Final = 3
"""How many of what a finding counts are named."""


class Finding(Struct, frozen=True):
    """One line of the diagnosis: how it stands, the next step, and a few of what is counted, each with its cause."""

    level: str
    check: str
    told: str
    examples: tuple[str, ...] = ()


class Group(Struct):
    """Things that are in the same trouble: how many, and the first few of them, each with the reason."""

    count: int = 0
    examples: list[str] = []

    def note(self, what: str, why: str | None = None) -> None:
        """One more."""
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{what}: {why}" if why else what)

    def told(self) -> tuple[str, ...]:
        """The examples, and how many there are besides."""
        more = self.count - len(self.examples)
        return (*self.examples, f"and {more:,} more") if more > 0 else tuple(self.examples)


def show(partition: str) -> str:
    """The command that shows an execution."""
    return shell_line("show", workflow_of(partition), id_of(partition))
