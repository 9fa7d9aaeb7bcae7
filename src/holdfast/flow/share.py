"""Who gets how much of a limit: no process more than it wants, and otherwise all the same (max-min fairness)."""

from __future__ import annotations

from collections.abc import Mapping


def fair_shares(total: int, wants: Mapping[str, int]) -> dict[str, int]:
    """The share of each owner. What cannot be divided goes to those that come first in ``wants``.

    >>> fair_shares(10, {"a": 2, "b": 9, "c": 9})
    {'a': 2, 'b': 4, 'c': 4}
    >>> fair_shares(1, {"a": 3, "b": 3})
    {'a': 1, 'b': 0}
    """
    shares: dict[str, int] = dict.fromkeys(wants, 0)
    hungry: list[str] = [owner for owner, wanted in wants.items() if wanted > 0]
    left = max(0, total)
    while left and hungry:
        each, rest = divmod(left, len(hungry))
        if not each:
            for owner in hungry[:rest]:
                shares[owner] += 1
            return shares
        for owner in hungry:
            more = min(each, wants[owner] - shares[owner])
            shares[owner] += more
            left -= more
        hungry = [owner for owner in hungry if shares[owner] < wants[owner]]
    return shares


def targets(total: int, wants: Mapping[str, int]) -> dict[str, int]:
    """What each owner is to have: its fair share of what is wanted, and an equal part of what none wants, so that its
    next calls need not ask.

    >>> targets(10, {"a": 2, "b": 1})
    {'a': 6, 'b': 4}
    """
    shares = fair_shares(total, wants)
    spare = max(0, total - sum(shares.values()))
    extra = fair_shares(spare, dict.fromkeys(wants, spare))
    return {owner: share + extra[owner] for owner, share in shares.items()}
