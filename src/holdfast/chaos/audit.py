"""The end of a story: the bank's ledger and the shop's books, compared with what was ordered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.crew import audit
from holdfast.crew.audit import Due
from holdfast.crew.ledger import Entry


def problems(ordered: Mapping[str, int], ledger: Sequence[Entry], books: Mapping[str, int]) -> Iterator[str]:
    """What does not agree. ``ordered`` is the price of each order to be billed; ``books`` is how often each
    order was entered.
    """
    yield from audit.problems({order: Due(cents) for order, cents in ordered.items()}, ledger)
    for order in ordered.keys() | books.keys():
        if (wanted := int(order in ordered)) != (found := books.get(order, 0)):
            yield f"{order}: it was entered into the books {found} times, not {wanted}"
