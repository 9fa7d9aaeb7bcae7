"""What the processes of a home tell each other without a guarantee: each hint may be lost, late or doubled."""

from __future__ import annotations

from msgspec import Struct


class News(Struct, frozen=True, array_like=True, gc=False):
    """There is news of an entity for those that wait for it, its end for example, and no work to do."""

    partition: str


Hint = str | News | None
"""What a process hears from another one: the entity to check, or news of one; ``None`` means "check all"."""
