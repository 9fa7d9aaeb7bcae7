"""A leaderboard: the best n, places shared by those who tie, and updates that may be sent as often as you like.

Shows an actor as the one place where an order is decided, with two ways to make updates idempotent. ``submit`` is so by
nature: the best score counts, however often and in whatever order results come in. ``award`` adds, so it is called with
the id of the game as ``request_id``: a game that is reported again is recognised, for the ``reply_window`` of a week.

    python examples/leaderboard.py
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import holdfast as hf

# ── The domain: plain code, no Holdfast ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Score:
    """A player's points. ``turn`` says in which order scores were reached: among equals, the first stays ahead."""

    points: int
    turn: int


@dataclass(frozen=True)
class Place:
    """A line of the board. Players with the same points share a rank, and the ranks behind them are left out."""

    rank: int
    player: str
    points: int


def standings(scores: Mapping[str, Score]) -> list[Place]:
    """Everybody, best first: 1, 2, 2, 4, …"""
    order = sorted(scores, key=lambda player: (-scores[player].points, scores[player].turn))
    places: list[Place] = []
    for number, player in enumerate(order, start=1):
        points = scores[player].points
        tied = bool(places) and places[-1].points == points
        places.append(Place(places[-1].rank if tied else number, player, points))
    return places


# ── The actor: one board per key ────────────────────────────────────────────────────────────────────────────────────

app = hf.App("games")


class Leaderboard(hf.Actor, app=app, reply_window="7d"):
    """Its state is read and written as a whole: right for some thousand players. For more, keep a board per league."""

    scores: dict[str, Score] = hf.field(default_factory=dict[str, Score])
    turns: int = 0

    async def submit(self, player: str, points: int) -> Place:
        """A result of which only a player's best counts. Answers where the player stands."""
        if player not in self.scores or points > self.scores[player].points:
            self._set(player, points)
        return self._place(player)

    async def award(self, player: str, points: int) -> Place:
        """Points to be added. Give the call a ``request_id`` that names what they are for, and repeats are harmless."""
        self._set(player, points + (self.scores[player].points if player in self.scores else 0))
        return self._place(player)

    async def remove(self, player: str) -> bool:
        """Take a player off the board; false if he is not on it."""
        return self.scores.pop(player, None) is not None

    @hf.read
    async def top(self, n: int = 10) -> list[Place]:
        """The first n lines; where a tie is cut, those who reached it first are in. Raises ``ValueError`` below 0."""
        if n < 0:
            raise ValueError(f"the top {n} is nobody")
        return standings(self.scores)[:n]

    @hf.read
    async def place(self, player: str) -> Place | None:
        """Where a player stands; ``None`` if he is not on the board."""
        return self._place(player) if player in self.scores else None

    def _set(self, player: str, points: int) -> None:
        self.turns += 1
        self.scores[player] = Score(points, self.turns)

    def _place(self, player: str) -> Place:
        return next(place for place in standings(self.scores) if place.player == player)


# ── See it work ─────────────────────────────────────────────────────────────────────────────────────────────────────

PLAYERS = ("ann", "bob", "cem", "dee", "eve", "fay")


async def story() -> None:
    random = Random(1)
    games = [(f"game-{number}", random.choice(PLAYERS), random.randrange(1, 6)) for number in range(100)]
    reports = [*games, *games]  # each is reported twice, and in any order
    random.shuffle(reports)
    board = [Leaderboard.at("2026", request_id=game).award(player, points) for game, player, points in reports]
    await asyncio.gather(*board)

    top = await Leaderboard.at("2026").top(3)
    print(f"{len(reports)} reports of {len(games)} games; the best three:")
    for place in top:
        print(f"  {place.rank}. {place.player} {place.points}")
    expected = {name: sum(points for _, player, points in games if player == name) for name in PLAYERS}
    found = {place.player: place.points for place in await Leaderboard.at("2026").top(len(PLAYERS))}
    assert found == expected, f"a game was lost or counted twice: {found}, not {expected}"

    for player, points in (("ann", 70), ("bob", 90), ("cem", 70), ("dee", 50), ("ann", 60), ("bob", 90)):
        await Leaderboard.at("sprint").submit(player, points)
    sprint = await Leaderboard.at("sprint").top()
    print("ties share a place:", ", ".join(f"{place.rank}. {place.player}" for place in sprint))
    assert [(place.rank, place.player) for place in sprint] == [(1, "bob"), (2, "ann"), (2, "cem"), (4, "dee")]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app.home_url = f"sqlite:///{folder}/games.db"
        app.run(story())


if __name__ == "__main__":
    main()
