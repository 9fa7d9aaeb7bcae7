"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

Verdict = Literal["ok", "different", "cannot be told here"]

OK: Final = "ok"
DIFFERENT: Final = "different"
UNTOLD: Final = "cannot be told here"

BY_EMULATOR: Final = "not told by an emulator"


class Finding(Struct, frozen=True, kw_only=True):
    """What one check found: ``told`` in a sentence, ``figures`` with their unit at the end of the name.

    >>> differences("ttl", ["it is off"]).verdict
    'different'
    """

    check: str
    verdict: Verdict
    told: str
    figures: dict[str, float] = {}


def differences(check: str, found: Iterable[str], *, told: str = "", **figures: float) -> Finding:
    """``ok`` if nothing was found, with ``told``; else ``different``, with everything that was."""
    wrong = "; ".join(found)
    return Finding(check=check, verdict=DIFFERENT if wrong else OK, told=wrong or told, figures=figures)


def untold(check: str, reason: str, **figures: float) -> Finding:
    """What cannot be said here, and why."""
    return Finding(check=check, verdict=UNTOLD, told=reason, figures=figures)


def by_emulator(finding: Finding, why: str) -> Finding:
    """A finding that an emulator gave and AWS might not: it is no verdict, and what was seen is told."""
    return untold(finding.check, f"{BY_EMULATOR}: {why} (seen: {finding.told})", **finding.figures)
