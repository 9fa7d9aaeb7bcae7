"""The replay proof: whatever a body mixes, and in whatever order its operations end, its journal brings it back (G2).

Bodies are made up by Hypothesis: trees of asyncio's own constructs with durable operations at their leaves. A body runs
on an ``Activation`` (no I/O, no database) under a random order of completions; at random moments it is thrown away and
begun again from what is recorded so far, and in the end the whole journal is replayed, strictly and by identity. Every
time the trace of its decisions must be the same, and the journal must be wanted exactly in its order.
"""

from __future__ import annotations

import asyncio
import random as real_random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from holdfast.errors import StepFailed
from holdfast.failure import ErrorRecord
from holdfast.replay.activation import Activation
from holdfast.replay.entries import Cancelled, Done, Entry, Failed, Received
from holdfast.replay.requests import RUNNING, DueTimer, Raised, Returned
from holdfast.testing.virtual_time import START_MS

# ── Bodies, as trees ────────────────────────────────────────────────────────────────────────────────────────────────

MESSAGES = ("left", "right")


@dataclass(frozen=True)
class Leaf:
    """A step, a sleep of ``number`` milliseconds, or a wait for a message."""

    kind: str
    number: int


@dataclass(frozen=True)
class Branch:
    """One of asyncio's constructs around other parts. ``number`` is a time in milliseconds, or a size."""

    kind: str
    number: int
    parts: tuple[Leaf | Branch, ...]


Node = Leaf | Branch
Note = tuple[Any, ...]


class Body:
    """Performs a tree, and notes every decision."""

    def __init__(self, tree: Node, mutate: Callable[[Body], None] | None = None) -> None:
        self.tree = tree
        self.trace: list[Note] = []
        self.activation: Activation
        self._mutate = mutate

    async def main(self) -> int:
        if self._mutate is not None:
            self._mutate(self)
        return await self.perform(self.tree)

    def note(self, *what: Any) -> None:
        if not self.activation.loop.evicting:
            self.trace.append(what)

    async def perform(self, node: Node) -> int:
        method: Callable[[Any], Coroutine[Any, Any, int]] = getattr(self, node.kind)
        try:
            value = await method(node)
        except BaseException as error:
            self.note(node.kind, node.number, type(error).__name__)
            raise
        self.note(node.kind, node.number, value)
        return value

    # Leaves

    async def step(self, node: Leaf) -> int:
        return await self.activation.request("step", f"s{node.number}", None, decode=msgspec.json.decode)

    async def sleep(self, node: Leaf) -> int:
        await asyncio.sleep(node.number / 1000)
        return round(asyncio.get_running_loop().time() * 1000)

    async def receive(self, node: Leaf) -> int:
        return msgspec.json.decode(await self.activation.mailboxes.of(MESSAGES[node.number % 2]).get())

    # Branches

    async def sequence(self, node: Branch) -> int:
        return sum([await self.perform(part) for part in node.parts])

    async def gather(self, node: Branch) -> int:
        tolerant = bool(node.number % 2)
        results = await asyncio.gather(*map(self.perform, node.parts), return_exceptions=tolerant)
        return sum(result for result in results if isinstance(result, int))

    async def race(self, node: Branch) -> int:
        tasks = [asyncio.create_task(self.perform(part)) for part in node.parts]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.note("won", [tasks.index(task) for task in done], [tasks.index(task) for task in pending])
        for task in pending:
            task.cancel()
        if node.number % 2:
            await asyncio.gather(*pending, return_exceptions=True)
        return sum(task.result() for task in done if not task.cancelled() and task.exception() is None)

    async def completed(self, node: Branch) -> int:
        total = 0
        for each in asyncio.as_completed([asyncio.create_task(self.perform(part)) for part in node.parts]):
            try:
                total = 2 * total + await each
            except StepFailed:
                self.note("one failed")
        return total

    async def timeout(self, node: Branch) -> int:
        try:
            async with asyncio.timeout(node.number / 1000):
                return await self.perform(node.parts[0])
        except TimeoutError:
            return await self.perform(node.parts[-1])

    async def wait_for(self, node: Branch) -> int:
        try:
            return await asyncio.wait_for(self.perform(node.parts[0]), node.number / 1000)
        except TimeoutError:
            return -1

    async def group(self, node: Branch) -> int:
        tasks: list[asyncio.Task[int]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks += [group.create_task(self.perform(part)) for part in node.parts]
        except* StepFailed as failed:
            self.note("group failed", [str(error) for error in failed.exceptions])
        return sum(task.result() for task in tasks if not task.cancelled() and task.exception() is None)

    async def pipeline(self, node: Branch) -> int:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1 + node.number % 2)

        async def produce(part: Node) -> None:
            value = -1
            try:
                value = await self.perform(part)
            finally:
                await queue.put(value)

        producers = [asyncio.create_task(produce(part)) for part in node.parts]
        total = 0
        for _ in producers:
            total = 3 * total + await queue.get()
        await asyncio.gather(*producers, return_exceptions=True)
        return total

    async def limited(self, node: Branch) -> int:
        gate = asyncio.Semaphore(1 + node.number % 2)

        async def one(part: Node) -> int:
            async with gate:
                return await self.perform(part)

        results = await asyncio.gather(*map(one, node.parts), return_exceptions=True)
        return sum(result for result in results if isinstance(result, int))

    async def event(self, node: Branch) -> int:
        happened = asyncio.Event()

        async def first() -> int:
            try:
                return await self.perform(node.parts[0])
            finally:
                happened.set()

        async def later(part: Node) -> int:
            await happened.wait()
            return await self.perform(part)

        results = await asyncio.gather(*map(later, node.parts[1:]), first(), return_exceptions=True)
        return sum(result for result in results if isinstance(result, int))

    async def cancel(self, node: Branch) -> int:
        victim = asyncio.create_task(self.perform(node.parts[0]))
        await self.perform(node.parts[-1])
        victim.cancel()
        await asyncio.wait([victim])
        self.note("victim", "cancelled" if victim.cancelled() else "ended")
        return 0

    async def guarded(self, node: Branch) -> int:
        try:
            return await self.perform(node.parts[0])
        finally:
            await self.perform(node.parts[-1])

    async def shielded(self, node: Branch) -> int:
        return await asyncio.shield(self.perform(node.parts[0]))

    async def leftover(self, node: Branch) -> int:
        for part in node.parts[1:]:
            self.kept = asyncio.create_task(self.perform(part))
        return await self.perform(node.parts[0])


LEAVES = ("step", "step", "step", "sleep", "receive")
BRANCHES = [
    "sequence",
    "gather",
    "race",
    "completed",
    "timeout",
    "wait_for",
    "group",
    "pipeline",
    "limited",
    "event",
    "cancel",
    "guarded",
    "shielded",
    "leftover",
]

leaves = st.builds(Leaf, st.sampled_from(LEAVES), st.integers(0, 9))
trees = st.recursive(
    leaves,
    lambda parts: st.builds(
        Branch, st.sampled_from(BRANCHES), st.integers(0, 40), st.lists(parts, min_size=1, max_size=4).map(tuple)
    ),
    max_leaves=8,
)
bodies = st.builds(
    Branch, st.sampled_from(BRANCHES), st.integers(0, 40), st.lists(trees, min_size=2, max_size=5).map(tuple)
)
"""Hypothesis prefers small trees; of small bodies there are few schedules."""

# ── Running a body under a schedule ─────────────────────────────────────────────────────────────────────────────────


def rebuild(record: ErrorRecord) -> Exception:
    return StepFailed(record.type, record.message)


def begun(body: Body, recorded: Sequence[Entry], *, strict: bool = True) -> Activation:
    body.activation = Activation(
        body.main, recorded=recorded, started_at=START_MS, seed="seed", strict=strict, rebuild=rebuild
    )
    body.activation.begin()
    return body.activation


MOST_MESSAGES = 200
"""So many may come for a clean-up that waits for one."""


class Schedule:
    """One random order of completions, messages and crashes for one body. ``recorded`` is its journal."""

    def __init__(self, tree: Node, seed: int, counts: Counter[str]) -> None:
        self.tree = tree
        self.recorded: list[Entry] = []
        self.counts = counts
        self._random = Random(seed)
        self._messages = 3
        self._cancellations = 0
        self._may_cancel = self._random.random() < 0.3
        self._now = START_MS
        self._body = Body(tree)
        self._activation = begun(self._body, [])
        self._note()

    def run(self) -> None:
        while self._activation.outcome is RUNNING:
            entry = self._next()
            self.recorded.append(entry)
            self.counts["deliveries"] += 1
            self._activation.deliver(entry)
            self._note()
            if self._random.random() < 0.25:
                self._crash()
        self.counts["schedules"] += 1
        for strict in (True, False):
            again = Body(self.tree)
            self._compare(again, begun(again, self.recorded, strict=strict))
            again.activation.evict()
        self._activation.evict()

    def _note(self) -> None:
        """Record what the body newly waits for, as the engine does."""
        if self._activation.outcome is RUNNING and (wants := self._activation.take_wants()) is not None:
            self.recorded.append(wants.pending(()))

    def _crash(self) -> None:
        self.counts["resumptions"] += 1
        again = Body(self.tree)
        activation = begun(again, self.recorded)
        self._compare(again, activation)
        self._activation.evict()
        self._body, self._activation = again, activation

    def _compare(self, again: Body, activation: Activation) -> None:
        assert activation.broken is None, activation.broken
        assert again.trace == self._body.trace
        assert list(activation.requested) == list(self._activation.requested)
        assert told(activation) == told(self._activation)
        assert activation.now_ms == self._activation.now_ms
        assert not activation.replaying

    def _next(self) -> Entry:
        """What happens next: an operation ends, the next timer fires, a message comes, or the body is cancelled."""
        self._now += self._random.randrange(3)
        requests = list(self._activation.requested.values())
        timers = [request for request in requests if isinstance(request, DueTimer)]
        able = [request for request in requests if request not in timers]
        if timers:
            able.append(min(timers, key=lambda timer: timer.due_at))
        cleans_up = not able and self._activation.main.holds_cancellation  # no other cancellation interrupts that
        if cleans_up or (self._messages > 0 and (not able or self._random.random() < 0.1)):
            self._messages -= 1
            assert self._messages > -MOST_MESSAGES, "a clean-up that no message helps, which is not meant"
            return Received(f"m{self._messages}", self._random.choice(MESSAGES), self._now, Raw(b"5"))
        if not able or (self._may_cancel and self._random.random() < 0.05):
            self._may_cancel = False
            self.counts["cancellations"] += 1
            self._cancellations += 1
            assert self._cancellations < 50, "a body that cannot be cancelled, which these are not meant to be"
            return Cancelled(self._now, "enough")
        request = self._random.choice(able)
        if isinstance(request, DueTimer):
            self._now = max(self._now, request.due_at)
            return Done(request.id, self._now, "timer")
        if self._random.random() < 0.15:
            return Failed(request.id, self._now, request.kind, ErrorRecord("Broken", request.id))
        return Done(request.id, self._now, request.kind, Raw(str(self._random.randrange(100)).encode()))


def told(activation: Activation) -> tuple[str, ...]:
    match activation.outcome:
        case Returned(value):
            return "returned", str(value)
        case Raised(asyncio.CancelledError()):
            return ("cancelled",)  # asyncio hands out the message of a cancellation only once
        case Raised(error):
            return "raised", type(error).__name__, str(error)
        case _:
            return ("running",)


# ── The proof ───────────────────────────────────────────────────────────────────────────────────────────────────────

SCHEDULES_PER_BODY = 6
BODIES = 450


def test_every_schedule_of_every_body_replays(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()

    @settings(
        max_examples=BODIES,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(bodies)
    def prove(tree: Node) -> None:
        counts["bodies"] += 1
        for seed in range(SCHEDULES_PER_BODY):
            Schedule(tree, seed, counts).run()

    prove()
    with capsys.disabled():
        told_counts = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        print(f"\nreplay proof: {told_counts}, 0 divergences")
    assert counts["schedules"] >= 2_000
    assert counts["resumptions"] >= 1_000
    assert counts["cancellations"] >= 50


# ── The proof of the proof: what is not deterministic is caught ─────────────────────────────────────────────────────


def by_real_randomness(body: Body) -> None:
    parts = [Leaf("step", 1), Leaf("step", 2)]
    body.tree = Branch("sequence", 0, tuple(parts if real_random.random() < 0.5 else reversed(parts)))


def by_address(body: Body) -> None:
    things = sorted((object() for _ in range(4)), key=lambda thing: id(thing) * 2654435761 % 97)
    number = min(range(4), key=lambda place: id(things[place]) * 40503 % 101)
    body.tree = Branch("sequence", 0, (Leaf("step", number), Leaf("step", 9)))


class Everywhere:
    """Global state that changes from run to run."""

    count = 0


def by_global_state(body: Body) -> None:
    Everywhere.count += 1
    body.tree = Branch("sequence", 0, (Leaf("step", Everywhere.count), Leaf("step", 9)))


@pytest.mark.parametrize("mistake", [by_real_randomness, by_address, by_global_state])
def test_a_body_that_is_not_deterministic_is_caught(mistake: Callable[[Body], None]) -> None:
    keep: list[object] = []
    for attempt in range(100):
        first = Body(Leaf("step", 0), mistake)
        activation = begun(first, [])
        (request,) = activation.requested.values()
        entry = Done(request.id, START_MS, request.kind, Raw(b"1"))
        again = Body(Leaf("step", 0), mistake)
        caught = begun(again, [entry]).broken
        keep += [bytearray(attempt), first, again]  # so that addresses change
        activation.evict()
        again.activation.evict()
        if caught is not None:
            assert request.id in str(caught)
            return
    pytest.fail("100 replays of a body that is not deterministic went unnoticed")


def test_what_a_body_leaves_behind_is_cleaned_up_once_and_replays() -> None:
    """Tasks that outlive the body are cancelled when it ends; their own durable clean-up runs to its end."""
    cleanup = Branch("sequence", 0, (Leaf("step", 1), Leaf("step", 2)))
    tree = Branch("leftover", 0, (Leaf("step", 0), Branch("guarded", 0, (Leaf("step", 5), cleanup))))
    body = Body(tree)
    activation = begun(body, [])
    recorded: list[Entry] = []
    for name in ("s0", "s1", "s2"):
        (request,) = [each for each in activation.requested.values() if f"/{name}#" in f"/{each.id}"]
        recorded.append(Done(request.id, START_MS, request.kind, Raw(b"1")))
        activation.deliver(recorded[-1])
    assert told(activation) == ("returned", "1")
    again = Body(tree)
    assert begun(again, recorded).broken is None
    assert again.trace == body.trace
    activation.evict()
    again.activation.evict()


def test_wait_for_names_what_it_asks_for_alike_on_every_python() -> None:
    """Journals move to newer Pythons: 3.11 makes a task of what wait_for is given, 3.12 does not."""
    body = Body(Branch("wait_for", 5_000, (Leaf("step", 1),)))
    activation = begun(body, [])
    assert list(activation.requested) == ["timeout#0", "s1#0"]
    activation.evict()


def test_a_leftover_task_that_waits_for_nothing_durable_does_not_keep_its_execution_open() -> None:
    class Stuck(Body):
        async def main(self) -> int:
            asyncio.create_task(self.stubborn())  # noqa: RUF006 - the loop keeps it
            return await self.perform(self.tree)

        async def stubborn(self) -> None:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.note("no")

    body = Stuck(Leaf("step", 0))
    activation = begun(body, [])
    (request,) = activation.requested.values()
    entry = Done(request.id, START_MS, request.kind, Raw(b"1"))
    activation.deliver(entry)
    assert told(activation) == ("returned", "1")
    again = Stuck(body.tree)
    assert told(begun(again, [entry])) == ("returned", "1")
    assert again.trace == body.trace
    activation.evict()
    again.activation.evict()
