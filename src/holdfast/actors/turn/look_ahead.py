"""Whether the messages that wait were answered before, asked for all of them at once.

A message may have come before, so its actor looks for what it was answered then. Ids begin with the time at which they
were made: those of messages that wait together are close to each other, and one page shows all answers among them.

What is not there stays away until the message itself is applied: only the owner of the lease answers. So an id is used
up with its first delivery, and a repeat of it looks again. An answer in the head may move into the store, and one that
is being committed will be there: of those nothing is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.actors.record import REPLY_PREFIX
from holdfast.actors.turn.applied import on_pages

if TYPE_CHECKING:
    from holdfast.actors.turn.entity import ActorEntity
    from holdfast.ports import Store

MOST_ANSWERS: Final = 100
"""How many answers are read: a few read units, where each id alone would cost one."""


async def unanswered(actor: ActorEntity, store: Store) -> set[str]:
    """The ids of the messages that wait and have no answer. A single new one looks for itself."""
    assert actor.state is not None
    record, partition = actor.state.version.record, actor.partition
    waiting = {each.call.id for each in actor.queue.mail if each.call.known}
    known = actor.state.unanswered & waiting
    ids = sorted(waiting - known - record.replies.keys() - record.recent.keys() - actor.uncommitted.replies.keys())
    if len(ids) < 2:
        return known
    applied = await on_pages(ids, record, partition, store)
    behind = ids[0][:-1]
    prefix, after = REPLY_PREFIX + _common(behind, ids[-1]), REPLY_PREFIX + behind
    page = await store.query(partition, prefix=prefix, after=after, limit=MOST_ANSWERS)
    answered = {item.sort.removeprefix(REPLY_PREFIX) for item in page.items}
    seen = ids if page.cursor is None else [id for id in ids if id <= max(answered, default="")]
    return known | (set(seen) - answered - applied)


def _common(one: str, other: str) -> str:
    """What both begin with."""
    pairs = zip(one, other, strict=False)
    return one[: next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))]
