"""Which of the waiting executions begins next: turns of keys by weight, limits and rates at once. No store, no clock.

Keys take turns by their *pass*, the virtual time at which a key is due: it grows by ``1 / weight`` with each execution
of the key, and the key with the smallest pass is next. A key that comes back from an empty lane, from its limit or from
its rate starts at the present pass, so it saves nothing up. Within a key the smallest rank is first: the time of the
start, less its head start. So every execution is first some day, whatever comes later.

A slot and the tokens of all rates are taken in the same moment, or none of them. So nothing that waits for a token
holds a slot, and a key that waits holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from msgspec import Struct

from holdfast.flow.rates import NEVER_BEFORE, Rate, free_at, spent

ALL: Final = ""
"""The name under which the arrival time of the whole queue is kept. Those of keys begin with ``KEY``."""

KEY: Final = "="

MOST_ARRIVALS: Final = 2_000
"""Of how many keys a queue keeps the arrival time. Other keys wait until one of these is past."""

FULL_US: Final = 1_000_000
"""After this time it is tried again whether there is room."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How many of a queue run at once, and how often they begin: in all, and of each key."""

    limit: int
    limit_per_key: int | None = None
    rate: Rate | None = None
    rate_per_key: Rate | None = None
    weight: Callable[[str], float] = lambda _key: 1.0
    paused: bool = False


class Waiting(Struct, frozen=True, gc=False, order=True):
    """An execution that waits: its ``rank`` among those of its key, and where its place is stored."""

    rank: int
    sort: str
    key: str
    partition: str


class Lane:
    """The waiting executions of a key. ``parked``: it is in no heap, because its limit is reached or it is empty."""

    __slots__ = ("due_pass", "key", "parked", "running", "step", "waiting")

    def __init__(self, key: str, step: float) -> None:
        self.key = key
        self.step = step
        self.due_pass = 0.0
        self.running = 0
        self.waiting: list[Waiting] = []
        self.parked = True


class Chooser:
    """The waiting executions of a queue, those that run, and the arrival times of its rates."""

    def __init__(self, rules: Rules, running: Mapping[str, int], arrivals: Mapping[str, int]) -> None:
        self.rules = rules
        self.arrivals = dict(arrivals)
        self.running = 0
        self._lanes: dict[str, Lane] = {}
        self._places: dict[str, str] = {}
        self._left: set[str] = set()
        self._ready: list[tuple[float, int, Lane]] = []
        self._later: list[tuple[int, int, Lane]] = []
        self._pass = 0.0
        self._order = count()
        for key, number in running.items():
            self._lane(key).running += number
            self.running += number

    @property
    def waiting(self) -> int:
        """The number of executions that wait."""
        return len(self._places)

    @property
    def places(self) -> Collection[str]:
        """The places of all that wait."""
        return self._places.keys()

    def knows(self, place: Waiting) -> bool:
        """Whether this place waits here already."""
        return place.sort in self._places

    @property
    def oldest_rank(self) -> int | None:
        """The smallest rank of all that wait."""
        return min((lane.waiting[0].rank for lane in self._lanes.values() if lane.waiting), default=None)

    @property
    def first_place(self) -> str | None:
        """The place of what has waited for longest."""
        return min(self._places, default=None)

    # ── What changes ────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, place: Waiting) -> bool:
        """An execution waits; false if its place was known."""
        if self.knows(place):
            return False
        self._places[place.sort] = place.key
        lane = self._lane(place.key)
        if place.sort in self._left:  # it is in its lane still
            self._left.discard(place.sort)
        else:
            heappush(lane.waiting, place)
        if lane.parked and not self._is_full(lane):
            self._line_up(lane)
        return True

    def leave(self, sort: str) -> None:
        """What waits at this place, if anything does, waits no more."""
        key = self._places.pop(sort, None)
        if key is not None:
            self._left.add(sort)
            self._pass_over_left(self._lane(key))

    def freed(self, key: str) -> None:
        """An execution of this key has left its slot."""
        lane = self._lane(key)
        lane.running -= 1
        self.running -= 1
        if lane.parked and lane.waiting and not self._is_full(lane):
            self._line_up(lane)

    def change(self, rules: Rules) -> None:
        """Other numbers hold from now on."""
        self.rules = rules
        self._ready, self._later = [], []
        for lane in self._lanes.values():
            lane.step, lane.parked = 1 / rules.weight(lane.key), True
            if lane.waiting and not self._is_full(lane):
                self._line_up(lane)

    def catch_up(self, now_us: int) -> None:
        """Have no arrival time be later than after a whole burst at this moment. With one rate none ever is; with a
        slower one before, it may be an hour away.
        """
        for name, arrival in self.arrivals.items():
            rate = self.rules.rate if name == ALL else self.rules.rate_per_key
            if rate is not None:
                self.arrivals[name] = min(arrival, now_us + rate.interval_us * rate.burst)

    def take_out(self, wanted: Callable[[Waiting], bool]) -> list[Waiting]:
        """Take all of these out, as if they had never come."""
        taken: list[Waiting] = []
        for lane in self._lanes.values():
            out = [each for each in lane.waiting if each.sort in self._places and wanted(each)]
            if out:
                taken += out
                for each in out:
                    del self._places[each.sort]
                self._left.difference_update(each.sort for each in lane.waiting)
                lane.waiting = [each for each in lane.waiting if each.sort in self._places]
                heapify(lane.waiting)
        if taken:
            self.change(self.rules)
        return taken

    def forget_idle(self, now_us: int) -> None:
        """Drop what says nothing any more: arrival times that are past, and keys that have had their turn."""
        self.arrivals = {name: arrival for name, arrival in self.arrivals.items() if arrival > now_us}
        idle = [lane for lane in self._lanes.values() if not (lane.waiting or lane.running)]
        for lane in idle:
            if lane.due_pass <= self._pass:
                del self._lanes[lane.key]

    # ── Whose turn it is ────────────────────────────────────────────────────────────────────────────────────────────

    def pick(self, now_us: int) -> Waiting | None:
        """Take out the next execution that may begin now: its slot and its tokens are spent. ``None``: none may."""
        rules = self.rules
        if rules.paused or self.running >= rules.limit or self._free_at(rules.rate, ALL) > now_us:
            return None
        while self._later and self._later[0][0] <= now_us:
            self._line_up(heappop(self._later)[2])
        while self._ready:
            due_pass, _, lane = heappop(self._ready)
            self._pass_over_left(lane)
            if not lane.waiting:
                lane.parked = True
                continue
            if (free := self._key_free_at(lane.key, now_us)) > now_us:
                heappush(self._later, (free, next(self._order), lane))
                continue
            self._pass = due_pass
            return self._take(lane, now_us)
        return None

    def take_at_once(self, place: Waiting, now_us: int) -> bool:
        """Let this one begin now, if nothing else waits and it may: its slot and its tokens are spent then."""
        if self._places:
            return False
        self.add(place)
        if self.pick(now_us) is not None:
            return True
        self.leave(place.sort)
        return False

    def give_back(self, place: Waiting) -> None:
        """What was picked does not begin after all, and waits no more: its slot and its tokens are free again.

        An arrival time that is set back by one interval is never earlier than without the pick.
        """
        rules = self.rules
        for rate, name in ((rules.rate, ALL), (rules.rate_per_key, KEY + place.key)):
            if rate is not None and name in self.arrivals:
                self.arrivals[name] -= rate.interval_us
        self.freed(place.key)

    def next_at(self, now_us: int) -> int | None:
        """When a token comes for which something waits (microseconds); ``None`` if nothing waits for a token alone."""
        rules = self.rules
        if rules.paused or self.running >= rules.limit or not (self._ready or self._later):
            return None
        first = now_us if self._ready else self._later[0][0]
        return max(first, self._free_at(rules.rate, ALL))

    def _take(self, lane: Lane, now_us: int) -> Waiting:
        place = heappop(lane.waiting)
        del self._places[place.sort]
        self._pass_over_left(lane)
        lane.due_pass = self._pass + lane.step
        lane.running += 1
        self.running += 1
        for rate, name in ((self.rules.rate, ALL), (self.rules.rate_per_key, KEY + lane.key)):
            if rate is not None:
                self.arrivals[name] = spent(rate, self.arrivals.get(name, NEVER_BEFORE), now_us)
        lane.parked = True
        if lane.waiting and not self._is_full(lane):
            self._line_up(lane)
        return place

    def _pass_over_left(self, lane: Lane) -> None:
        """Have the first of a lane be one that waits."""
        while lane.waiting and lane.waiting[0].sort in self._left:
            self._left.discard(heappop(lane.waiting).sort)

    def _line_up(self, lane: Lane) -> None:
        lane.parked = False
        lane.due_pass = max(lane.due_pass, self._pass)
        heappush(self._ready, (lane.due_pass, next(self._order), lane))

    def _is_full(self, lane: Lane) -> bool:
        return self.rules.limit_per_key is not None and lane.running >= self.rules.limit_per_key

    def _free_at(self, rate: Rate | None, name: str) -> int:
        return 0 if rate is None else free_at(rate, self.arrivals.get(name, NEVER_BEFORE))

    def _key_free_at(self, key: str, now_us: int) -> int:
        """When a token of the key is free. Its arrival time needs room in the head of the queue."""
        name = KEY + key
        if self.rules.rate_per_key is None or name in self.arrivals or len(self.arrivals) < MOST_ARRIVALS:
            return self._free_at(self.rules.rate_per_key, name)
        return now_us + FULL_US

    def _lane(self, key: str) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, 1 / self.rules.weight(key))
        return lane
