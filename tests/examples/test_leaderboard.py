"""The leaderboard: order, ties, and updates that may come again."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leaderboard import Leaderboard, Place, Score, app, standings

import holdfast as hf

# ── Standings ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nobody_is_on_an_empty_board():
    assert standings({}) == []


def test_equals_share_a_rank_and_the_first_to_reach_it_is_named_first():
    scores = {"late": Score(5, turn=9), "best": Score(8, turn=4), "early": Score(5, turn=2), "last": Score(-1, turn=1)}
    assert standings(scores) == [Place(1, "best", 8), Place(2, "early", 5), Place(2, "late", 5), Place(4, "last", -1)]


def test_all_may_be_equal():
    assert [place.rank for place in standings({str(turn): Score(0, turn) for turn in range(3)})] == [1, 1, 1]


@given(st.lists(st.integers(-3, 3), max_size=20))
def test_a_rank_is_one_more_than_the_number_of_those_who_are_better(points):
    scores = {f"p{turn}": Score(each, turn) for turn, each in enumerate(points)}
    for place in standings(scores):
        assert place.rank == 1 + sum(each > place.points for each in points)
    assert sorted(place.player for place in standings(scores)) == sorted(scores)


# ── The actor ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_best_result_counts_in_any_order_and_however_often(virtually):
    async def main() -> None:
        board = Leaderboard.at("b")
        assert await board.submit("ann", 10) == Place(1, "ann", 10)
        assert await board.submit("bob", 20) == Place(1, "bob", 20)
        assert await board.submit("ann", 5) == Place(2, "ann", 10)
        assert await board.submit("ann", 20) == Place(1, "ann", 20)
        for _ in range(2):
            await board.submit("bob", 20)
        assert await board.top() == [Place(1, "bob", 20), Place(1, "ann", 20)]

    virtually(app, main)


def test_a_score_that_is_reached_again_does_not_lose_its_place(virtually):
    async def main() -> None:
        board = Leaderboard.at("b")
        for player in ("ann", "bob", "ann"):
            await board.submit(player, 7)
        assert [place.player for place in await board.top()] == ["ann", "bob"]

    virtually(app, main)


def test_an_award_is_added_once_for_each_request(virtually):
    async def main() -> None:
        for request, points in (("g1", 3), ("g2", 4), ("g1", 3), ("g2", 4)):
            place = await Leaderboard.at("b", request_id=request).award("ann", points)
        assert place == Place(1, "ann", 7)
        with pytest.raises(hf.IdempotencyMismatch):
            await Leaderboard.at("b", request_id="g1").award("ann", 4)
        assert (await Leaderboard.at("b").award("ann", -7)).points == 0

    virtually(app, main)


def test_an_award_is_recognised_for_a_week(virtually):
    async def main() -> None:
        await Leaderboard.at("b", request_id="g1").award("ann", 3)
        await asyncio.sleep(6 * 86_400)
        assert (await Leaderboard.at("b", request_id="g1").award("ann", 3)).points == 3

    virtually(app, main)


def test_the_top_is_cut_where_it_was_asked_to_be(virtually):
    async def main() -> None:
        board = Leaderboard.at("b")
        assert await board.top() == []
        for player, points in (("ann", 3), ("bob", 2), ("cem", 2)):
            await board.submit(player, points)
        assert await board.top(0) == []
        assert await board.top(2) == [Place(1, "ann", 3), Place(2, "bob", 2)]
        assert len(await board.top(99)) == 3
        with pytest.raises(ValueError, match="nobody"):
            await board.top(-1)

    virtually(app, main)


def test_a_player_can_be_looked_up_and_taken_off(virtually):
    async def main() -> None:
        board = Leaderboard.at("b")
        await board.submit("ann", 3)
        await board.submit("bob", 2)
        assert await board.place("bob") == Place(2, "bob", 2)
        assert await board.remove("ann")
        assert not await board.remove("ann")
        assert await board.place("ann") is None
        assert await board.place("bob") == Place(1, "bob", 2)

    virtually(app, main)


def test_boards_do_not_see_each_other(virtually):
    async def main() -> None:
        await Leaderboard.at("b").submit("ann", 1)
        assert await Leaderboard.at("c").top() == []

    virtually(app, main)
