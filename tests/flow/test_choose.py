"""The chooser against a naive scheduler, which looks at all that ever happened before each choice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.flow import choose
from holdfast.flow.choose import Chooser, Rules, Waiting
from holdfast.flow.rates import NEVER_BEFORE, Rate, free_at, spent

KEYS = ("a", "b", "c", "d")
WEIGHTS = {"a": 3.0, "b": 1.0, "c": 0.5, "d": 1.0}

rates = st.none() | st.builds(Rate, st.integers(1, 5), st.sampled_from(["10ms", "1s"]), st.integers(1, 3))
rules = st.builds(
    Rules,
    limit=st.integers(1, 6),
    limit_per_key=st.none() | st.integers(1, 3),
    rate=rates,
    rate_per_key=rates,
    weight=st.just(WEIGHTS.__getitem__),
)
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from(KEYS), st.integers(0, 50)),
        st.tuples(st.just("pick"), st.just(""), st.just(0)),
        st.tuples(st.just("end"), st.just(""), st.integers(0, 10)),
        st.tuples(st.just("cancel"), st.just(""), st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(1, 2_000_000)),
    ),
    max_size=120,
)


@dataclass
class Naive:
    """All that waits, runs and has begun, in plain lists."""

    rules: Rules
    waiting: list[Waiting] = field(default_factory=list)
    running: list[Waiting] = field(default_factory=list)
    begun: list[tuple[int, str]] = field(default_factory=list)

    def may_begin(self, key: str, now: int) -> bool:
        rules = self.rules
        of_key = sum(each.key == key for each in self.running)
        return (
            len(self.running) < rules.limit
            and (rules.limit_per_key is None or of_key < rules.limit_per_key)
            and self._has_token(rules.rate, [at for at, _ in self.begun], now)
            and self._has_token(rules.rate_per_key, [at for at, of in self.begun if of == key], now)
        )

    @staticmethod
    def _has_token(rate: Rate | None, times: list[int], now: int) -> bool:
        if rate is None:
            return True
        arrival = NEVER_BEFORE
        for at in times:
            arrival = spent(rate, arrival, at)
        return free_at(rate, arrival) <= now


@given(rules, happenings)
@settings(max_examples=300, deadline=None)
def test_it_chooses_what_may_begin_and_the_first_of_its_key(
    rules: Rules, happenings: list[tuple[str, str, int]]
) -> None:
    chooser, naive, now, numbers = Chooser(rules, {}, {}), Naive(rules), 10**12, count()
    for what, key, number in happenings:
        if what == "start":
            place = Waiting(now - number, f"{next(numbers):05}", key, f"wf#w#{key}")
            assert chooser.add(place) and not chooser.add(place)
            naive.waiting.append(place)
        elif what == "wait":
            now += number
        elif what == "end" and naive.running:
            ended = naive.running.pop(number % len(naive.running))
            chooser.freed(ended.key)
        elif what in ("pick", "cancel"):
            picked = chooser.pick(now)
            eligible = {each.key for each in naive.waiting if naive.may_begin(each.key, now)}
            if picked is None:
                assert not eligible
                continue
            assert picked.key in eligible
            assert picked == min(each for each in naive.waiting if each.key == picked.key)
            naive.waiting.remove(picked)
            if what == "cancel":
                chooser.give_back(picked)
            else:
                naive.running.append(picked)
                naive.begun.append((now, picked.key))
        assert (chooser.waiting, chooser.running) == (len(naive.waiting), len(naive.running))
        chooser.forget_idle(now)


@given(rules, st.lists(st.sampled_from(KEYS), min_size=1, max_size=30))
@settings(deadline=None)
def test_it_tells_when_the_next_token_comes(rules: Rules, keys: list[str]) -> None:
    chooser, now = Chooser(rules, {}, {}), 10**12
    for number, key in enumerate(keys):
        chooser.add(Waiting(number, f"{number:05}", key, ""))
    begun = 0
    while chooser.waiting:
        if (picked := chooser.pick(now)) is not None:
            begun += 1
            chooser.freed(picked.key)
            continue
        at = chooser.next_at(now)
        assert at is not None and at > now
        assert chooser.pick(at - 1) is None
        now = at
    assert begun == len(keys)


@given(st.lists(st.sampled_from([0.25, 0.5, 1.0, 1.5, 3.0]), min_size=2, max_size=6), st.integers(1, 300))
def test_keys_with_work_share_by_their_weights(weights: list[float], picks: int) -> None:
    by_key = {f"k{place}": weight for place, weight in enumerate(weights)}
    chooser = Chooser(Rules(limit=1, weight=by_key.__getitem__), {}, {})
    for key in by_key:
        for number in range(picks + 1):
            chooser.add(Waiting(number, f"{key}{number:05}", key, ""))
    got: Counter[str] = Counter()
    for _ in range(picks):
        picked = chooser.pick(0)
        assert picked is not None
        got[picked.key] += 1
        chooser.freed(picked.key)
        for one, weight in by_key.items():
            for other, its_weight in by_key.items():  # the bound of start-time fair queueing
                apart = abs(got[one] / weight - got[other] / its_weight)
                assert apart <= 1 / weight + 1 / its_weight + 1e-9


def test_a_flood_of_one_key_does_not_starve_another() -> None:
    chooser = Chooser(Rules(limit=1), {}, {})
    for number in range(10_000):
        chooser.add(Waiting(number, f"a{number:05}", "a", ""))
    for _ in range(5_000):
        assert chooser.pick(0) is not None
        chooser.freed("a")
    chooser.add(Waiting(10_000, "b", "b", ""))
    keys = set[str]()
    for _ in range(2):
        picked = chooser.pick(0)
        assert picked is not None
        keys.add(picked.key)
        chooser.freed(picked.key)
    assert "b" in keys


def test_a_key_that_waits_for_its_rate_holds_no_slot() -> None:
    chooser = Chooser(Rules(limit=1, rate_per_key=Rate(1, per="1s")), {}, {choose.KEY + "a": 10_000_000})
    chooser.add(Waiting(0, "a0", "a", ""))
    chooser.add(Waiting(1, "b0", "b", ""))
    picked = chooser.pick(0)
    assert picked is not None and picked.key == "b"
    chooser.freed("b")
    assert chooser.pick(0) is None and chooser.running == 0 and chooser.next_at(0) == 10_000_000


def test_other_numbers_hold_at_once() -> None:
    chooser = Chooser(Rules(limit=1), {}, {})
    for number in range(3):
        chooser.add(Waiting(number, f"{number}", "a", ""))
    assert chooser.pick(0) is not None and chooser.pick(0) is None
    chooser.change(Rules(limit=2))
    assert chooser.pick(0) is not None and chooser.pick(0) is None
    chooser.change(Rules(limit=9, paused=True))
    assert chooser.pick(0) is None
    chooser.change(Rules(limit=9))
    assert chooser.pick(0) is not None


def test_arrival_times_have_a_bound() -> None:
    arrivals = {f"{choose.KEY}k{number}": 10**9 for number in range(choose.MOST_ARRIVALS)}
    chooser = Chooser(Rules(limit=9, rate_per_key=Rate(1, per="1h")), {}, arrivals)
    chooser.add(Waiting(0, "x", "new", ""))
    assert chooser.pick(0) is None and chooser.next_at(0) == choose.FULL_US
    chooser.forget_idle(10**9)
    assert chooser.pick(10**9) is not None


def test_a_new_rate_does_not_wait_for_the_token_of_an_old_one() -> None:
    hour, now = 3_600_000_000, 10**12
    for slow in (Rules(limit=9, rate=Rate(1, per="1h")), Rules(limit=9, rate_per_key=Rate(1, per="1h"))):
        chooser = Chooser(slow, {}, {})
        for number in range(5):
            chooser.add(Waiting(number, f"{number}", "a", ""))
        assert chooser.pick(now) is not None and chooser.pick(now) is None
        assert chooser.next_at(now) == now + hour
        fast = Rate(100, per="1s", burst=2)
        chooser.change(Rules(limit=9, rate=fast if slow.rate else None, rate_per_key=None if slow.rate else fast))
        chooser.catch_up(now)
        assert chooser.pick(now) is None, "its burst is not given once more"
        assert chooser.next_at(now) == now + fast.interval_us
