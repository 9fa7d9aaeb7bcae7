"""The proof of replay under changed code: it continues right, or it blocks and the old code goes on (G13).

Bodies and changes of them are made up by Hypothesis. The old body runs on an ``Activation`` (no I/O, no database) under
a random order of completions, up to a random point: there its process stops in good order, or dies. The new body goes
on from what is recorded. Whatever happens, no effect takes place under two identities, nothing that was finished is
lost, no call gets the value of another one, no wait is cut short; and after a block the old body comes to its end.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.simulation.changes import CHANGES, NAMES, Body, Node, calls, drop, numbered, walk

from holdfast.failure import ErrorRecord
from holdfast.replay.activation import Activation
from holdfast.replay.earlier import name_of
from holdfast.replay.entries import Done, Entry, Intended, Pending, Received, Tried
from holdfast.replay.requests import RUNNING, DueTimer, Operation
from holdfast.testing.virtual_time import START_MS

PAIRS = 800
POINTS = 3
MOST_DELIVERIES = 300

leaves = st.one_of(
    st.builds(Node, st.just("step"), st.just(0), st.sampled_from(NAMES)),
    st.builds(Node, st.just("step"), st.just(0), st.sampled_from(NAMES)),
    st.builds(Node, st.just("sleep")),
    st.builds(Node, st.just("wait"), st.just(0), st.sampled_from(("go", "come"))),
)
trees = st.recursive(
    leaves,
    lambda parts: st.builds(
        lambda kind, parts: Node(kind, 70_000, parts=tuple(parts)),
        st.sampled_from(("sequence", "gather", "group", "limited")),
        st.lists(parts, min_size=1, max_size=4),
    ),
    max_leaves=6,
)
bodies = st.lists(trees, min_size=2, max_size=6).map(lambda parts: numbered(Node("sequence", parts=tuple(parts)), [0]))


class History:
    """One execution: what is recorded of it, and what it has done to the world."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.recorded: list[Entry] = []
        self.effects: dict[tuple[str, int], set[str]] = {}
        self.unknown: set[str] = set()
        """What was under way when its process died, and is recorded nowhere."""
        self.waited: set[int] = set()
        self.now = START_MS
        self._messages = 0

    def body(
        self,
        tree: Node,
        *,
        strict: bool,
        removed: tuple[str, ...] = (),
        passed: frozenset[tuple[str, str]] = frozenset(),
    ) -> Body:
        """A body that has replayed what is recorded."""
        body = Body(tree, self.waited, removed, passed)
        body.activation = Activation(
            body.main,
            recorded=list(self.recorded),
            started_at=START_MS,
            seed="seed",
            strict=strict,
            rebuild=lambda error: ValueError(error.message),
        )
        body.activation.begin(self.now)
        return body

    def drive(self, body: Body, deliveries: int = MOST_DELIVERIES) -> bool:
        """Let what is asked for happen, one after another. False if it has not come to its end by then."""
        activation = body.activation
        notes = self._noted(activation)
        for _ in range(deliveries):
            if activation.outcome is not RUNNING or activation.broken is not None:
                return True
            happened = self._next(activation)
            self.recorded += [*notes, *happened]
            for entry in happened:
                if isinstance(entry, (Done, Received)):
                    activation.deliver(entry)
            notes = []
            if activation.broken is None:
                self.recorded += self._noted(activation)
        if deliveries == 0 or notes:
            self._end(activation, notes)
        return False

    def stop(self, activation: Activation, *, dies: bool) -> None:
        """The process ends. If it dies, what it had just begun may have happened."""
        for request in list(activation.requested.values()):
            if dies and isinstance(request, Operation) and self.random.random() < 0.5:
                self._effect(request)
                if request.id not in known(self.recorded):
                    self.unknown.add(request.id)
        activation.evict()

    def _end(self, activation: Activation, notes: list[Entry]) -> None:
        """In good order, what the body waits for is noted; in a bad end it is not."""
        if self.random.random() < 0.5:
            self.recorded += notes

    def _noted(self, activation: Activation) -> list[Entry]:
        wants = activation.take_wants()
        if wants is None:
            return []
        return [*wants.marked, *wants.notes, wants.pending(())]

    def _effect(self, request: Operation) -> None:
        name, label = name_of(request.id), int(request.fingerprint)
        self.effects.setdefault((name, label), set()).add(request.id)

    def _next(self, activation: Activation) -> list[Entry]:
        """What happens next: a step ends or fails for now, the next timer fires, or a message comes."""
        self.now += self.random.randrange(20)
        requests = list(activation.requested.values())
        timers = [each for each in requests if isinstance(each, DueTimer)]
        able = [each for each in requests if isinstance(each, Operation)]
        if not able and timers and self.random.random() < 0.8:
            timer = min(timers, key=lambda each: each.due_at)
            self.now = max(self.now, timer.due_at)
            return [Done(timer.id, self.now, "timer", fingerprint=timer.fingerprint)]
        if not able or self.random.random() < 0.1:
            self._messages += 1
            return [Received(f"m{self._messages}", self.random.choice(("go", "come")), self.now, Raw(b"1"))]
        step = self.random.choice(able)
        self._effect(step)
        error = ErrorRecord("Broken", "not yet")
        match self.random.random():
            case chance if chance < 0.1:
                return [Tried(step.id, self.now, 1, error, self.now, step.fingerprint)]
            case chance if chance < 0.2:
                return [Intended(step.id, self.now, step.fingerprint)]
            case _:
                return [Done(step.id, self.now, "step", Raw(step.fingerprint.encode()), step.fingerprint)]


def known(recorded: list[Entry]) -> set[str]:
    """The operations of which something is recorded."""
    pending = (op for entry in recorded if isinstance(entry, Pending) for op in entry.operations)
    return {*pending, *(entry.op for entry in recorded if isinstance(entry, (Done, Tried, Intended)))}


def asked(recorded: list[Entry]) -> dict[str, str]:
    """The steps that a body has asked for, with the digests of their arguments."""
    pending = {op: each for entry in recorded if isinstance(entry, Pending) for op, each in entry.operations.items()}
    finished = {each.op: each.fingerprint for each in recorded if isinstance(each, Done) and each.kind == "step"}
    return pending | finished


# ── One pair ────────────────────────────────────────────────────────────────────────────────────────────────────────


def violations(old: Node, new: Node, removed: tuple[str, ...], seed: int, counts: Counter[str]) -> list[str]:
    """What goes wrong if the new body goes on with an execution that the old one has begun."""
    random = Random(seed)
    history = History(random)
    first = history.body(old, strict=True)
    if history.drive(first, random.randrange(2 + sum(not node.parts for node in walk(old)))):
        first.activation.evict()
        counts["over"] += 1
        return []
    history.stop(first.activation, dies=random.random() < 0.5)
    counts["points"] += 1
    before = list(history.recorded)
    passed = frozenset((name_of(op), digest) for op, digest in asked(before).items())
    body = history.body(new, strict=False, removed=removed, passed=passed)
    if random.random() < 0.3 and not history.drive(body, random.randrange(4)):
        body.activation.evict()
        body = history.body(new, strict=False, removed=removed, passed=passed)
    ended = history.drive(body)
    wrong = [*body.wrong, *(() if ended else ["the new code does not come to its end"])]
    if body.activation.broken is None:
        counts["continued"] += 1
        wrong += lost(before, body, removed)
    else:
        counts["blocked"] += 1
        wrong += rolled_back(history, before, old, counts)
    body.activation.evict()
    return [*wrong, *repeated(history, old, new)]


def lost(before: list[Entry], body: Body, removed: tuple[str, ...]) -> list[str]:
    """What was finished, and the new code neither asks for nor declares removed."""
    finished = {
        (name_of(each.op), each.fingerprint) for each in before if isinstance(each, Done) and each.kind == "step"
    }
    found = {(name, str(label)) for name, label in body.asked}
    return [f"{name}({label}) is lost" for name, label in finished - found if name not in removed]


def repeated(history: History, old: Node, new: Node) -> list[str]:
    """What happened under more identities than any of the bodies has calls of it."""
    most = calls(old) | calls(new)
    return [
        f"{name}({label}) happened as {sorted(ops)}"
        for (name, label), ops in history.effects.items()
        if len(ops - history.unknown) > max(1, most[name, label])
    ]


def rolled_back(history: History, before: list[Entry], old: Node, counts: Counter[str]) -> list[str]:
    """Whether the old code comes to its end now, or is blocked because the new one has done more."""
    has_done_more = bool(known(history.recorded) - known(before))
    back = history.body(old, strict=False)
    ended = history.drive(back)
    broken = back.activation.broken
    back.activation.evict()
    if broken is not None and has_done_more:
        counts["blocked both"] += 1
    elif broken is not None or not ended:
        return [f"the old code does not come to its end again: {broken}"]
    return back.wrong


def prove(pairs: int, counts: Counter[str]) -> None:
    """Try so many pairs; fail with the smallest one that goes wrong."""

    @settings(
        max_examples=pairs,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(bodies, st.sampled_from(CHANGES), st.integers(0, 2**32))
    def try_pair(old: Node, change: object, seed: int) -> None:
        assert callable(change)
        random = Random(seed)
        new: Node = change(old, random)
        assume(new != old)
        gone = {name for name, _ in calls(old) - calls(new)}
        removed = tuple(gone) if change is drop and random.random() < 0.4 else ()
        counts["pairs"] += 1
        for point in range(POINTS):
            wrong = violations(old, new, removed, seed + point, counts)
            assert not wrong, (getattr(change, "__name__", ""), old, new, removed, seed + point, wrong)

    try_pair()


def test_every_change_continues_right_or_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    prove(PAIRS, counts)
    with capsys.disabled():
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        print(f"\nproof of replay under changed code: {told}, 0 violations")
    assert counts["pairs"] >= 500
    assert counts["points"] >= 1_000
    assert counts["continued"] >= 0.2 * counts["points"]
    assert counts["blocked"] >= 0.2 * counts["points"]
