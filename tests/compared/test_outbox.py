"""A relay by hand, and ours: the process dies while it carries an event."""

from __future__ import annotations

import asyncio

import pytest
from tests.compared import naive
from tests.compared.bookkeeping import dies_at_every_write
from tests.compared.stage import begin, outcome, play, told


def by_hand(relay):
    def build(app, stage):
        async def publish(event):
            await asyncio.sleep(0.5)
            stage.seen.append(event)
            await asyncio.sleep(0.5)

        return lambda: relay(stage.store, publish)

    return build


def a_relay_dies(after_seconds):
    async def schedule(stage):
        stage.store.rows["outbox/1"] = {"event": "17", "published": False}
        one, two = await stage.boot(), await stage.boot()
        first = begin(one)
        await asyncio.sleep(after_seconds)
        one.crash()
        await outcome(first)
        await told(two)
        return stage.seen

    return schedule


BEFORE, AFTER = 0.3, 0.7
"""When it dies: before the broker has the event, or after, while it waits for the broker's word."""


@pytest.mark.parametrize(
    ("relay", "seconds", "seen"),
    [
        (naive.relay_marking_first, BEFORE, []),
        (naive.relay_marking_first, AFTER, ["17"]),
        (naive.relay_publishing_first, BEFORE, ["17"]),
        (naive.relay_publishing_first, AFTER, ["17", "17"]),
    ],
)
def test_by_hand_an_event_is_lost_or_doubled(relay, seconds, seen):
    assert play(a_relay_dies(seconds), by_hand(relay)) == seen


def test_ours_carries_it_once_wherever_the_relay_dies(play_ours):
    found = dies_at_every_write(play_ours)
    assert found == [["17"]] * len(found)
