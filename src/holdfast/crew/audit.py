"""The bank's ledger, compared with the cost of each order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.crew.ledger import ACCEPTED, REFUND, Entry

Charge = Literal["kept", "refunded", "absent"]


class Due(Struct, frozen=True):
    """What the ledger is to say of an order: its charge was kept, refunded if there was one, or never made."""

    cents: int
    charge: Charge = "kept"

    def fits(self, accepted: Sequence[int], refunded: Sequence[int]) -> bool:
        """Whether these charges and refunds, in cents, are what was due."""
        match self.charge:
            case "kept":
                return accepted == [self.cents] and not refunded
            case "refunded":
                return len(accepted) <= 1 and accepted == refunded
            case "absent":
                return not accepted and not refunded


def entries_by_order(ledger: Sequence[Entry], what: str) -> defaultdict[str, list[Entry]]:
    """The entries of one kind, by their order."""
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in ledger:
        if entry.what == what:
            found[entry.order].append(entry)
    return found


def problems(due: Mapping[str, Due], ledger: Sequence[Entry]) -> Iterator[str]:
    """What in the ledger does not fit what was due, order by order; and each key that was accepted twice."""
    accepted, refunds = entries_by_order(ledger, ACCEPTED), entries_by_order(ledger, REFUND)
    for order, its_due in due.items():
        charged, refunded = ([each.cents for each in entries[order]] for entries in (accepted, refunds))
        if not its_due.fits(charged, refunded):
            rule = f"its charge of {its_due.cents} cents was to be {its_due.charge}"
            yield f"{order}: {rule}, but it was charged {charged} and refunded {refunded} cents"
        keys = {each.key for each in ledger if each.order == order and each.key is not None}
        if len(keys) > 1:
            yield f"{order}: it was charged under {len(keys)} different keys (G10)"
    for order in {each.order for each in ledger} - due.keys():
        yield f"{order}: the bank knows this order, but it was never placed, or not to be charged"
    accepted_keys = Counter(each.key for each in ledger if each.what == ACCEPTED)
    for key in [key for key, count in accepted_keys.items() if count > 1]:
        yield f"{key}: the bank accepted this idempotency key more than once"
