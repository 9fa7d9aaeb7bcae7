"""What is left in the store at the end, and whether it is right."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
from tests.actors.bank.accounts import OPENING_CENTS

from holdfast.actors.record import PARTITION_PREFIX, decode_record, key_of, partition_of
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.items import Item
from holdfast.ports import Store

QUIET = frozenset({"SUSPENDED"})
HEALING_SECONDS = 60.0


async def heads(store: Store) -> list[Item]:
    found: list[Item] = []
    after: str | None = None
    while True:
        page = await store.scan(PARTITION_PREFIX, after=after, limit=1000)
        found += page.items
        if (after := page.cursor) is None:
            return found


async def left_over(store: Store) -> list[str]:
    """Every lease, claim and message row that is still there."""
    found: list[str] = []
    for head in await heads(store):
        if head.owner is not None or head.status not in QUIET or head.due_at is not None:
            found.append(f"{head.partition} is {head.status}, owned by {head.owner}, due at {head.due_at}")
        messages = await store.query(head.partition, prefix=INBOX_PREFIX)
        found += [f"{head.partition} has a message at {each.sort}" for each in messages.items]
    return found


async def heal(store: Store) -> tuple[float, list[str]]:
    """Wait until nothing is left over; answer how long it took, and what was left when patience was over."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (rest := await left_over(store)) and loop.time() - began < HEALING_SECONDS:
        await asyncio.sleep(0.1)
    return loop.time() - began, rest


async def judge(
    store: Store, accounts: int, orders: list[dict[str, Any]], replies: dict[str, set[int | str]]
) -> list[str]:
    """Everything that is wrong with the books."""
    complaints: list[str] = []
    paid: Counter[tuple[str, str]] = Counter()
    got: Counter[tuple[str, str]] = Counter()
    total = 0
    for head in await heads(store):
        if not head.partition.startswith(partition_of("Account", "")):
            continue
        state = msgspec.json.decode(bytes(decode_record(head.body).state))
        total += state["balance"] - OPENING_CENTS
        paid.update((transfer, key_of(head.partition)) for transfer in state["paid"])
        got.update((transfer, key_of(head.partition)) for transfer in state["got"])
    if total:
        complaints.append(f"the accounts have {total:+} cents beside what they began with")
    for order in {each["id"]: each for each in orders}.values():
        id = order["id"]
        answered = replies.get(id, set())
        if len(answered) != 1:
            complaints.append(f"transfer {id} was answered {sorted(map(str, answered))}")
        times = 0 if answered == {"declined"} else 1
        for what, side, book in (("taken", "from", paid), ("put", "to", got)):
            if (count := book.pop((id, order[side]), 0)) != times:
                complaints.append(f"transfer {id} was applied {count} times ({what}), not {times}")
    complaints += [f"nobody ordered {each}" for each in (paid + got)]
    return complaints
