"""Pairs of an old and a new body, made up: a tree of steps, sleeps and waits for messages, and a change of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import msgspec

from holdfast.replay.activation import Activation
from holdfast.replay.earlier import SIGNAL_PREFIX

NAMES: Final = ("s0", "s1", "s2", "s3")


@dataclass(frozen=True)
class Node:
    """A step, a sleep, or a wait for a message, called ``name``; or a construct of asyncio around parts.

    ``label`` is what a step is called with, and what it answers; of a sleep it is the duration in milliseconds.
    """

    kind: str
    label: int = 0
    name: str = ""
    parts: tuple[Node, ...] = ()


def walk(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts:
        yield from walk(part)


def numbered(node: Node, count: list[int]) -> Node:
    """The same tree, in which every leaf has a label of its own."""
    if node.parts:
        return replace(node, parts=tuple(numbered(part, count) for part in node.parts))
    count[0] += 1
    return replace(node, label=1000 * count[0] if node.kind == "sleep" else count[0])


def calls(tree: Node) -> Counter[tuple[str, int]]:
    """How often a body calls each step, by what it is called with."""
    return Counter((node.name, node.label) for node in walk(tree) if node.kind == "step")


# ── Changes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Change = Callable[[Node, Random], Node]


def fresh(random: Random, kinds: tuple[str, ...] = ("step", "step", "sleep", "wait")) -> Node:
    """A leaf that is in no tree yet."""
    kind, label = random.choice(kinds), random.randrange(500, 900)
    if kind == "sleep":
        return Node("sleep", label * 7)
    return Node(kind, label, random.choice(NAMES) if kind == "step" else random.choice(("go", "come")))


def at_random(tree: Node, random: Random, change: Callable[[Node], tuple[Node, ...]], kinds: str = "") -> Node:
    """The tree with one of its nodes (of these kinds) changed into what ``change`` makes of it."""
    able = [node for node in walk(tree) if node is not tree and (not kinds or node.kind in kinds.split())]
    if not able:
        return tree
    chosen = random.choice(able)

    def rebuilt(node: Node) -> tuple[Node, ...]:
        if node is chosen:
            return change(node)
        if not node.parts:
            return (node,)
        parts = tuple(each for part in node.parts for each in rebuilt(part))
        return (replace(node, parts=parts),) if parts else ()

    return replace(tree, parts=tuple(each for part in tree.parts for each in rebuilt(part)))


def insert(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: (fresh(random), node))


def append(tree: Node, random: Random) -> Node:
    return replace(tree, parts=(*tree.parts, fresh(random)))


def insert_patched(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: (Node("patch", parts=(fresh(random, ("step",)),)), node))


def patch_instead(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: (Node("patch", parts=(fresh(random, ("step",)), node)),), "step wait")


def drop(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: ())


def move(tree: Node, random: Random) -> Node:
    taken: list[Node] = []

    def take(node: Node) -> tuple[Node, ...]:
        taken.append(node)
        return ()

    without = at_random(tree, random, take, "step sleep")
    if not taken or not without.parts:
        return tree
    if random.random() < 0.3:
        return replace(without, parts=(*without.parts, *taken))
    return at_random(without, random, lambda node: (*taken, node))


def rename(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: (replace(node, name=random.choice(NAMES)),), "step")


def call_otherwise(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: (replace(node, label=random.randrange(500, 900)),), "step")


def last_otherwise(tree: Node, random: Random) -> Node:
    return at_random(
        tree, random, lambda node: (replace(node, label=random.choice((1, 5000, 90_000))),), "sleep limited"
    )


def wrap(tree: Node, random: Random) -> Node:
    kind = random.choice(("gather", "group", "limited", "sequence"))
    return at_random(tree, random, lambda node: (Node(kind, 80_000, parts=(node,)),))


def unwrap(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: node.parts, "gather group limited sequence")


def double(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: (node, node), "step")


def make_concurrent(tree: Node, random: Random) -> Node:
    return at_random(tree, random, lambda node: (replace(node, kind="gather"),), "sequence group limited")


CHANGES: Final[tuple[Change, ...]] = (
    insert,
    append,
    insert_patched,
    patch_instead,
    drop,
    move,
    rename,
    call_otherwise,
    last_otherwise,
    wrap,
    unwrap,
    double,
    make_concurrent,
)


# ── Bodies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Body:
    """Performs a tree. ``removed``: the names of the steps that it declares that it does without. ``passed``: what
    earlier code has asked for, as far as is recorded.
    """

    def __init__(
        self,
        tree: Node,
        waited: set[int],
        removed: tuple[str, ...] = (),
        passed: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.tree = tree
        self.asked: set[tuple[str, int]] = set()
        self.wrong: list[str] = []
        self.activation: Activation
        self._waited = waited
        self._removed = removed
        self._passed = passed

    async def main(self) -> None:
        if self._removed:
            self.activation.removed(self._removed)
        for part in self.tree.parts:
            await self.perform(part)

    async def perform(self, node: Node) -> None:
        method: Callable[[Node], Awaitable[Any]] = getattr(self, node.kind)
        await method(node)

    async def step(self, node: Node) -> None:
        self.asked.add((node.name, node.label))
        value = await self.activation.request(
            "step", node.name, None, fingerprint=str(node.label), decode=msgspec.json.decode
        )
        if value != node.label:
            self.wrong.append(f"{node.name}({node.label}) got the value of {value}")

    async def sleep(self, node: Node) -> None:
        began = self.activation.now_ms
        await asyncio.sleep(node.label / 1000)
        passed = self.activation.now_ms - began
        if passed >= node.label:
            self._waited.add(node.label)
        elif node.label not in self._waited:
            self.wrong.append(f"a sleep of {node.label} ms was over after {passed} ms")

    async def wait(self, node: Node) -> None:
        self.activation.awaits_message(SIGNAL_PREFIX + node.name)
        await self.activation.mailbox(node.name).get()

    async def patch(self, node: Node) -> None:
        """The first part is new, the others are what was there before."""
        new, *old = node.parts
        is_new = self.activation.patched(f"p{new.label}")
        behind = [(node.name, str(node.label)) for part in old for node in walk(part) if node.kind == "step"]
        if is_new and self._passed.intersection(behind):
            self.wrong.append(f"p{new.label} is on, although earlier code has passed it")
        for part in [new] if is_new else old:
            await self.perform(part)

    async def sequence(self, node: Node) -> None:
        for part in node.parts:
            await self.perform(part)

    async def gather(self, node: Node) -> None:
        await asyncio.gather(*map(self.perform, node.parts))

    async def group(self, node: Node) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in node.parts:
                tasks.create_task(self.perform(part))

    async def limited(self, node: Node) -> None:
        try:
            async with asyncio.timeout(node.label / 1000):
                await self.sequence(node)
        except TimeoutError:
            pass
