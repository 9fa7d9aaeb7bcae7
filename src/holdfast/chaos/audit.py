"""The end of a story: the shop's books, the bank's ledger and what was ordered, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from holdfast.chaos.bank import ACCEPTED, Attempt


def problems(ordered: Mapping[str, int], attempts: Sequence[Attempt], books: Mapping[str, int]) -> Iterator[str]:
    """What does not agree. ``ordered`` is the price of each order that is to be billed; ``books`` is how often each
    order was entered.
    """
    for order, cents in ordered.items():
        accepted = [each.cents for each in attempts if each.order == order and each.what == ACCEPTED]
        if accepted != [cents]:
            yield f"{order} costs {cents} cents, and the bank has charged {accepted}"
        if books.get(order, 0) != 1:
            yield f"{order} is {books.get(order, 0)} times in the books"
        if len(keys := {each.key for each in attempts if each.order == order}) > 1:
            yield f"{order} was charged under {len(keys)} different keys (G10)"
    for order in {*books, *(each.order for each in attempts)} - ordered.keys():
        yield f"{order} was billed, and nobody was to be billed for it"
    accepted_keys = Counter(each.key for each in attempts if each.what == ACCEPTED)
    for key in [key for key, count in accepted_keys.items() if count > 1]:
        yield f"the bank accepted the key {key} more than once"
