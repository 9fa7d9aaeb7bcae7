"""What is known of an operation besides its outcome: its failed attempts, the deaths it caused, what it reported."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from holdfast.replay.entries import Done, Failed, Tried


class Noted(Struct, frozen=True, omit_defaults=True):
    """Notes on one operation. ``died``: how many processes in a row have died since while it was under way.

    ``intended``: an attempt may have begun, and its outcome is unknown. ``progressed`` is what it reported last.
    ``aside`` is what it came to before a retry. ``renewed``: how often it was started again, under another key.
    """

    tried: Tried | None = None
    died: int = 0
    intended: bool = False
    progressed: Raw | None = None
    aside: Done | Failed | None = None
    renewed: int = 0

    @property
    def attempts(self) -> int:
        """How many attempts have begun, those that failed and those that their processes did not survive."""
        return self.died if self.tried is None else self.died + self.tried.attempt + self.tried.deaths

    @property
    def failures(self) -> int:
        """How many attempts have failed."""
        return 0 if self.tried is None else self.tried.attempt

    @property
    def deaths(self) -> int:
        """How many processes have died during its attempts, as far as is known."""
        return self.died + (0 if self.tried is None else self.tried.deaths)

    def pauses(self, now: int) -> bool:
        """Whether it waits for its next attempt at ``now`` (milliseconds)."""
        return self.tried is not None and self.tried.again_at > now


NOTHING: Final = Noted()
