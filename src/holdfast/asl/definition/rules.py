"""The parts of states: retriers, catchers and the rules of choices."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class Retrier(Struct, frozen=True, rename="pascal"):
    """When a state is tried again, and after how long."""

    error_equals: list[str]
    interval_seconds: int | float = 1
    max_attempts: int = 3
    backoff_rate: int | float = 2.0
    max_delay_seconds: int | float | None = None
    jitter_strategy: str = "NONE"


class Catcher(Struct, frozen=True, rename="pascal"):
    """Where the machine goes on after an error. An unset ``result_path`` is ``$``; ``None`` drops the error."""

    error_equals: list[str]
    next: str
    result_path: str | UnsetType | None = UNSET
    output: Any = UNSET
    assign: dict[str, Any] = {}


class ChoiceRule(Struct, frozen=True):
    """One rule of a Choice: ``test`` is the rule as written, without what follows from it."""

    next: str
    test: dict[str, Any]
    assign: dict[str, Any] | UnsetType = UNSET
    output: Any = UNSET


FOLLOWS = frozenset({"Next", "Assign", "Output", "Comment"})
"""The fields of a rule that say what follows, not when."""


def choice_rule(written: dict[str, Any]) -> ChoiceRule:
    """A rule as the definition has it."""
    return ChoiceRule(
        next=written["Next"],
        test={name: value for name, value in written.items() if name not in FOLLOWS},
        assign=written.get("Assign", UNSET),
        output=written.get("Output", UNSET),
    )
