"""Limits that one call needs together: a moment has to come at which it has a token of each of their rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.errors import InvalidInput
from holdfast.flow.overrides import read_numbers

if TYPE_CHECKING:
    from holdfast.flow.lending import Numbers
    from holdfast.flow.rates import Rate
    from holdfast.ports import Store


class Need(Struct, frozen=True):
    """One of the limits that a call needs, and how many tokens of it at least."""

    name: str
    partition: str
    declared: Numbers
    weight: int


class Together(Struct, frozen=True):
    """The limits that each call of ``what`` needs."""

    what: str
    needs: tuple[Need, ...]


def check_bursts(needed: Iterable[tuple[str, Rate | None, int]], what: str) -> None:
    """A token that is not smaller than the burst can be used at one moment only. Two such moments may never meet.
    ``needed`` are limits by their names, with their rates and how many tokens a call takes. Raises ``InvalidInput``.
    """
    bare = [(name, weight) for name, rate, weight in needed if rate is not None and weight >= rate.burst]
    if len(bare) > 1:
        raise InvalidInput(
            f"{what} needs tokens of several rates at the same moment, {' and '.join(repr(name) for name, _ in bare)}: "
            f"give all but one of them a burst larger than a call, {' and '.join(f'{each:,}' for _, each in bare)}"
        )


async def check_change(store: Store, partition: str, numbers: Mapping[str, Any], together: Sequence[Together]) -> None:
    """Raise ``InvalidInput`` if calls could wait for ever once the limit there has these numbers."""
    for each in together:
        hold = [
            await read_numbers(need.partition, need.declared, store, numbers if need.partition == partition else {})
            for need in each.needs
        ]
        needed = zip(each.needs, hold, strict=True)
        check_bursts(((need.name, held.rate, need.weight) for need, held in needed), each.what)
