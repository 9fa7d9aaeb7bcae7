"""Published versions of the function: who may go on with an execution is called by name, whoever was rung for it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import event_of
from tests.backends.aws.releases import FUNCTION, Releases
from tests.backends.aws.world import DynamoDatabase

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import InvalidState, StoreUnavailable, UnknownName
from holdfast.items import Update
from holdfast.ports import Home
from holdfast.replay.entries import TakenOver, decode_entries
from holdfast.runtime.lambda_ import published_version
from holdfast.testing.virtual_time import run_virtual
from holdfast.workflows.finding import head_of
from holdfast.workflows.record import decode_record

NUMBERS = itertools.count()
on_both = pytest.mark.parametrize("cloudy", ["memory", pytest.param("dynamodb", marks=pytest.mark.aws)], indirect=True)
ONE, TWO, THREE = (f"{FUNCTION}:{n}" for n in (1, 2, 3))


def tour(ran: Counter[str], name: str, *, charges: str = "", wait: str = "1s", code: str = "") -> Callable[..., None]:
    """A release. Its pinned workflows have the version ``code``, else their release's own name."""

    def build(app: hf.App) -> None:
        @app.step
        async def charge(order: str) -> str:
            ran[f"charge {order}"] += 1
            return f"charged by {name}"

        @app.workflow(versions="pinned", version=code or name)
        async def pinned(order: str) -> list[str]:
            paid = await charge(order + charges)
            went = await hf.signal("go", str)
            await hf.sleep(wait)
            return [name, paid, went]

        @app.workflow(version=name)
        async def compatible(order: str) -> list[str]:
            paid = await charge(order + charges)
            went = await hf.signal("go", str)
            return [name, paid, went]

        @app.workflow(versions="pinned", version=code or name)
        async def parent(order: str) -> list[object]:
            return [name, await pinned(order)]

        @app.workflow(versions="pinned", version=code or name)
        async def rounds(left: int) -> str:
            await hf.signal("go")
            if left:
                hf.continue_as_new(left - 1)
            return name

    return build


@pytest.fixture
def cloudy(request: pytest.FixtureRequest) -> Callable[[Callable[[Releases], Any]], Any]:
    """``cloudy(story)`` runs ``story(cloud)`` in virtual time, in memory unless ``on_both`` says more."""
    if getattr(request, "param", "memory") == "dynamodb":
        client = request.getfixturevalue("client")
        database = DynamoDatabase(client)
        open_store: Callable[[str], Any] = database.open
    else:
        data = MemoryData()

        async def open_store(owner: str) -> Home:
            return open_memory_home(data=data, owner=owner)

    def run(story: Callable[[Releases], Any]) -> Any:
        async def main() -> Any:
            async with Releases(open_store) as cloud:
                return await story(cloud)

        return run_virtual(main)

    return run


def asked(what: str, workflow: str, id: str, **more: Any) -> dict[str, Any]:
    return {"holdfast": what, "workflow": workflow, "id": id, **more}


def start(workflow: str, id: str) -> dict[str, Any]:
    return asked("start", workflow, id, input=[id])


def go(workflow: str, id: str, value: str = "ann") -> dict[str, Any]:
    return asked("signal", workflow, id, name="go", value=value)


async def ends(cloud: Releases, workflow: str, id: str) -> Any:
    """Its result, or its error."""
    async with asyncio.timeout(10_000):
        while True:
            told = await cloud.invoke(asked("status", workflow, id))
            if told["status"] in {"COMPLETED", "FAILED"}:
                return told.get("result") or told["error"]
            await asyncio.sleep(1)


async def reaches(cloud: Releases, workflow: str, id: str, status: str) -> None:
    async with asyncio.timeout(3600):
        while (await cloud.invoke(asked("status", workflow, id)))["status"] != status:
            await asyncio.sleep(1)


@on_both
def test_two_versions_are_live_at_once(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        for workflow in ("pinned", "compatible"):
            assert (await cloud.invoke(start(workflow, workflow)))["status"] == "SUSPENDED"
        cloud.deploy(tour(ran, "blue"))
        for workflow in ("pinned", "compatible"):
            await cloud.invoke(go(workflow, workflow))
        assert await ends(cloud, "pinned", "pinned") == ["red", "charged by red", "ann"]
        assert await ends(cloud, "compatible", "compatible") == ["blue", "charged by red", "ann"]
        await cloud.invoke(start("pinned", "new"))
        await cloud.invoke(go("pinned", "new"))
        assert await ends(cloud, "pinned", "new") == ["blue", "charged by blue", "ann"]
        assert cloud.told_of("handed_over") == [(TWO, ONE)] * 2, "for the signal, and for the timer after it"
        assert cloud.called == {ONE: 2}
        assert not cloud.told_of("blocked")
        assert ran == {"charge pinned": 1, "charge compatible": 1, "charge new": 1}

    cloudy(story)


def test_looking_and_starting_again_calls_nobody_but_the_version_that_works(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        await cloud.invoke(asked("status", "pinned", "one"))
        assert not cloud.asked
        assert (await cloud.invoke(start("pinned", "one")))["status"] == "SUSPENDED"
        assert cloud.asked == {ONE: 1}, "whoever starts again may do so because its first turn was not finished"
        await cloud.invoke(go("pinned", "one"))
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]

    cloudy(story)


@on_both
def test_what_a_client_has_started_belongs_to_the_version_that_begins_it(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        app = cloud.app("")
        async with app:
            await app.registry.workflow("pinned").start("one", id="one")
            await asyncio.sleep(1)
        cloud.deploy(tour(ran, "blue"))
        await cloud.invoke(go("pinned", "one"))
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]
        assert cloud.called[ONE]

    cloudy(story)


def test_a_version_with_the_same_code_takes_it_along(cloudy: Any) -> None:
    """So the versions that only other things were changed in need not be kept for it."""

    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        first = cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke({"holdfast": "ring", "partition": "wf#pinned#one"})
        assert not cloud.asked
        cloud.deploy(tour(ran, "blue"))
        cloud.delete(first)
        await cloud.invoke(go("pinned", "one"))
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]
        assert set(cloud.asked) == {TWO}

    cloudy(story)


def test_children_and_next_runs_stay_on_the_version_that_starts_them(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("parent", "one"))
        await cloud.invoke(asked("start", "rounds", "two", input=[1]))
        cloud.deploy(tour(ran, "blue"))
        async with cloud.app() as app:
            (child,) = (await app.executions("pinned")).executions
        await cloud.invoke(go("pinned", child.id))
        for name in "ab":
            await cloud.invoke(go("rounds", "two", name))
            await asyncio.sleep(1)
        assert await ends(cloud, "parent", "one") == ["red", ["red", "charged by red", "ann"]]
        assert await ends(cloud, "rounds", "two") == "red"

    cloudy(story)


def test_the_sweep_of_the_version_that_is_live_finds_work_of_the_others(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        cloud.faults = ["dies"]
        handler = cloud.environment()
        invocation = asyncio.ensure_future(cloud.invoke(go("pinned", "one"), handler))
        await asyncio.sleep(1)
        await cloud.kill(handler, invocation)
        assert cloud.met == {"dies": 1} and not cloud.called
        await asyncio.sleep(10)
        await cloud.invoke({"holdfast": "sweep"})
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]

    cloudy(story)


def test_a_worker_of_an_old_version_that_died_is_followed_by_the_same_version(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        gate = asyncio.Event()

        def slow(app: hf.App) -> None:
            @app.step
            async def charge(order: str) -> str:
                await gate.wait()
                ran["charged"] += 1
                return "charged"

            @app.workflow(versions="pinned", version="red")
            async def pinned(order: str) -> list[str]:
                return ["red", await charge(order)]

        cloud.deploy(slow)
        handler = cloud.environment()
        invocation = asyncio.ensure_future(cloud.invoke(start("pinned", "one"), handler))
        await asyncio.sleep(1)
        await cloud.kill(handler, invocation)
        cloud.deploy(tour(ran, "blue"))
        gate.set()
        ring = event_of(("ring", json.dumps({"holdfast": "ring", "partition": "wf#pinned#one"})))
        await cloud.invoke(ring)
        assert not cloud.asked, "it may still be awake: nobody is called before its lease is over"
        cloud.begin_sweeping()
        assert await ends(cloud, "pinned", "one") == ["red", "charged"]
        assert ran == {"charged": 1}
        assert (ONE, "claimed", {"partition": "wf#pinned#one", "takeover": True}) in cloud.events

    cloudy(story)


# ── What goes wrong on the way ──────────────────────────────────────────────────────────────────────────────────────

TURNED_AWAY = ["TooManyRequestsException"] * 3

FAULTS: dict[str, list[str | None]] = {
    "throttled once": ["TooManyRequestsException"],
    "throttled until the message comes again": list(TURNED_AWAY),
    "an error of Lambda": ["ServiceException"],
    "its answer is lost": ["lost"],
    "its answer is lost each time": ["lost", "lost", "lost"],
    "nobody answers": ["silent", "silent", "silent"],
    "it is made twice": ["doubled"],
    "the version fails at first": ["fails"],
    "the caller dies before it": ["dies"],
    "the caller dies after it": ["dies late"],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_a_call_that_goes_wrong_costs_time_and_nothing_else(cloudy: Any, faults: list[str | None]) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        cloud.timeout_seconds = 10.0
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        cloud.faults = list(faults)
        cloud.begin_sweeping()
        cloud.put(json.dumps(go("pinned", "one")), 0)
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]
        assert cloud.met == Counter(faults)
        assert ran == {"charge one": 1}
        assert not cloud.told_of("blocked")
        assert not cloud.dead

    cloudy(story)


def test_what_is_rung_for_while_a_call_is_under_way_is_called_for_anew(cloudy: Any) -> None:
    """The version that was called may have looked already, and gone."""

    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        cloud.faults = ["hangs"]
        handler = cloud.environment()
        ringing = asyncio.ensure_future(cloud.invoke({"holdfast": "ring", "partition": "wf#pinned#one"}, handler))
        await asyncio.sleep(1)
        crew = handler._worker
        assert crew is not None
        assert crew.host.check("wf#pinned#one")
        cloud.wake.set()
        await ringing
        assert cloud.asked == {ONE: 2}

    cloudy(story)


@pytest.mark.parametrize("lost", [0, 1])
def test_one_that_was_claimed_before_it_was_known_who_is_wanted_is_released(cloudy: Any, lost: int) -> None:
    """Its head changed between the look and the claim."""

    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        cloud.blind, cloud.lost = 1, lost
        await cloud.invoke(go("pinned", "one"))
        assert (TWO, "claimed", {"partition": "wf#pinned#one", "takeover": False}) in cloud.events
        assert (cloud.blind, cloud.lost) == (0, 0)
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]
        assert not cloud.told_of("blocked")
        assert ran == {"charge one": 1}

    cloudy(story)


def test_an_owner_who_died_is_fenced_before_his_work_is_given_away(cloudy: Any) -> None:
    """He may be awake: what he writes late must not get into the journal behind the next owner's back (G3)."""

    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red", wait="2m"))
        handler = cloud.environment()
        await cloud.invoke(start("pinned", "one"), handler)
        crew = handler._worker
        assert crew is not None
        store = crew.host.home.store
        hold = Update(
            partition="wf#pinned#one", status="RUNNING", owner="dead", lease_until=cloud.clock.now_ms(), add_epoch=1
        )
        await store.write(hold)
        await asyncio.sleep(1)
        cloud.deploy(tour(ran, "blue"))
        cloud.blind = 1
        await cloud.invoke({"holdfast": "ring", "partition": "wf#pinned#one"})
        assert (TWO, "claimed", {"partition": "wf#pinned#one", "takeover": True}) in cloud.events
        segments = (await store.query("wf#pinned#one", prefix="j#")).items
        assert all(isinstance(each, TakenOver) for each in decode_entries(segments[-1].body)), "the fence"
        assert segments[-1].epoch > segments[0].epoch
        await cloud.invoke(go("pinned", "one"))
        cloud.begin_sweeping()
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]

    cloudy(story)


def test_a_caller_that_wakes_up_an_hour_later_disturbs_nobody(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red", wait="2h"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        cloud.faults = ["hangs"]
        zombie = cloud.environment()
        cloud.timeout_seconds = 7200.0  # it is frozen, and time stands still for it
        sleeping = asyncio.ensure_future(cloud.invoke(go("pinned", "one"), zombie))
        await asyncio.sleep(10)
        cloud.timeout_seconds = 60.0
        await cloud.invoke({"holdfast": "sweep"})
        await asyncio.sleep(3600)
        assert cloud.called == {ONE: 1}
        cloud.wake.set()
        await sleeping
        await asyncio.sleep(1)
        assert cloud.called == {ONE: 2}
        assert cloud.met == {"hangs": 1}
        cloud.begin_sweeping()
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]
        assert ran == {"charge one": 1}

    cloudy(story)


def test_many_executions_through_many_faults(cloudy: Any) -> None:
    """Every kind of fault happens, no execution is lost, none runs a line of another version's code."""

    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        random = Random(17)
        kinds = ["TooManyRequestsException", "ServiceException", "lost", "silent", "doubled", "fails", "dies late"]
        cloud.timeout_seconds = 10.0
        cloud.begin_sweeping()
        wanted: dict[str, str] = {}
        for color in ("red", "blue", "green"):
            cloud.deploy(tour(ran, color))
            for n in range(8):
                wanted[f"{color}-{n}"] = color
                await cloud.invoke(start("pinned", f"{color}-{n}"))
        cloud.faults = [random.choice([*kinds, None, None]) for _ in range(60)]
        for id in random.sample(sorted(wanted), len(wanted)):
            cloud.put(json.dumps(go("pinned", id)), random.uniform(0, 5))
        for id, color in wanted.items():
            assert await ends(cloud, "pinned", id) == [color, f"charged by {color}", "ann"]
        assert ran == {f"charge {id}": 1 for id in wanted}
        assert min(cloud.met[kind] for kind in kinds) >= 1, cloud.met
        assert not cloud.told_of("blocked")

    cloudy(story)


# ── Versions that are gone ──────────────────────────────────────────────────────────────────────────────────────────


@on_both
def test_an_execution_whose_version_is_gone_is_reported_and_can_be_moved(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        first = cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        cloud.delete(first)
        await cloud.invoke(go("pinned", "one"))
        await reaches(cloud, "pinned", "one", "BLOCKED")
        ((who, reason),) = cloud.told_of("blocked")
        assert who == TWO
        assert f"pinned to version red, which {ONE} has; this worker has blue" in reason
        assert f"there is no {ONE} any more" in reason
        await cloud.invoke(asked("move", "pinned", "one"))
        assert await ends(cloud, "pinned", "one") == ["blue", "charged by red", "ann"]
        assert ran == {"charge one": 1}
        app = cloud.app()
        async with app:
            assert (await app.handle("pinned", "one").status()).version == "blue"
            head = await head_of(app.runtime(), "wf#pinned#one")
            assert decode_record(head.body).published == TWO

    cloudy(story)


def test_one_that_was_moved_is_blocked_where_code_and_journal_disagree(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue", charges=" and more"))
        await cloud.invoke(asked("move", "pinned", "one"))
        await reaches(cloud, "pinned", "one", "BLOCKED")
        assert "charge#0" in (await cloud.invoke(asked("status", "pinned", "one")))["blocked"]
        assert ran == {"charge one": 1}

    cloudy(story)


@on_both
def test_whoever_had_a_moved_one_in_memory_forgets_it(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))  # this environment keeps it in memory
        cloud.deploy(tour(ran, "blue"))
        await cloud.invoke(asked("move", "pinned", "one"))
        late = {"holdfast": "ring", "partition": "wf#pinned#one"}
        await cloud.call(ONE, late)
        assert cloud.told_of("handed_over") == [(ONE, TWO)]
        await cloud.invoke(go("pinned", "one"))
        assert await ends(cloud, "pinned", "one") == ["blue", "charged by red", "ann"]

    cloudy(story)


def test_so_does_whoever_is_called_for_it_before_the_new_version_was(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))  # this environment keeps it in memory
        cloud.deploy(tour(ran, "blue"))
        app = cloud.app()
        async with app:
            cloud.sqs.broken = [TimeoutError()] * 9
            await app.handle("pinned", "one").move()
        cloud.sqs.broken = []
        await cloud.call(ONE, go("pinned", "one"))
        assert cloud.told_of("handed_over") == [(ONE, TWO)]
        assert await ends(cloud, "pinned", "one") == ["blue", "charged by red", "ann"]

    cloudy(story)


def test_it_can_be_moved_back_while_its_version_is_there(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        await cloud.invoke(asked("move", "pinned", "one"))
        await cloud.call(ONE, asked("move", "pinned", "one"))
        await cloud.invoke(go("pinned", "one"))
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"]

    cloudy(story)


def test_a_role_that_may_not_call_is_told_of(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        await cloud.invoke(start("pinned", "one"))
        cloud.deploy(tour(ran, "blue"))
        cloud.faults = ["AccessDeniedException"]
        await cloud.invoke(go("pinned", "one"))
        ((_, reason),) = cloud.told_of("blocked")
        assert f"{ONE} cannot be called: AccessDeniedException" in reason
        cloud.begin_sweeping()
        assert await ends(cloud, "pinned", "one") == ["red", "charged by red", "ann"], "somebody gave it the right"

    cloudy(story)


def test_a_name_that_is_wrong_leads_to_one_call_and_no_circle(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red", code="same"))
        await cloud.invoke(start("pinned", "one"))
        cloud.code[ONE] = tour(ran, "red", code="changed")  # what no published version does
        cloud._idle.clear()
        cloud.deploy(tour(ran, "blue"))
        await cloud.invoke(go("pinned", "one"))
        await asyncio.sleep(50)
        assert cloud.asked == {ONE: 1}
        ((who, _),) = cloud.told_of("blocked")
        assert who == ONE, "it finds its own name, and code that is not its own"

    cloudy(story)


# ── Wake-ups, called directly ────────────────────────────────────────────────────────────────────────────────────────


def test_a_ring_may_be_called_directly_and_fails_if_its_work_could_not_be_done(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        cloud.deploy(tour(ran, "red"))
        app = cloud.app("")
        async with app:
            cloud.sqs.broken = [TimeoutError()] * 9
            await app.registry.workflow("compatible").start("one", id="one")
        ring = {"holdfast": "ring", "partition": "wf#compatible#one"}
        handler = cloud.environment()
        await cloud.invoke(asked("status", "compatible", "one"), handler)
        cloud.is_down = True
        with pytest.raises(StoreUnavailable, match="send the wake-up again"):
            await handler.invoke(ring)
        cloud.is_down, cloud.sqs.broken = False, []
        await cloud.invoke(ring, handler)
        assert ran == {"charge one": 1}
        with pytest.raises(UnknownName):
            await cloud.invoke({"holdfast": "ring", "partition": "wf#nothing#one"}, handler)
        await cloud.invoke(ring | {"due_at": cloud.clock.now_ms() + 5000}, handler)
        assert cloud.sqs.delays[-1] == 5

    cloudy(story)


def test_nothing_but_a_published_version_has_a_name() -> None:
    named = {"AWS_LAMBDA_FUNCTION_NAME": "f", "AWS_LAMBDA_FUNCTION_VERSION": "12"}
    assert published_version(named) == "f:12"
    assert published_version(named | {"AWS_LAMBDA_FUNCTION_VERSION": "$LATEST"}) == ""
    assert published_version({}) == ""


def test_the_handler_tells_the_home_which_version_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = hf.App("shop")
    assert app.published == ""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "f")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_VERSION", "12")
    app.home_url = "aws://shop?region=eu-west-1"
    handler = app.lambda_handler()

    async def own() -> str:
        async with app:
            versions = app.runtime().home.versions
            assert versions is not None
            return versions.own

    assert asyncio.run(own()) == "f:12"
    handler.close()


class Racing:
    """A store in which somebody comes first: ``first`` is written before the next write."""

    def __init__(self, store: Any, first: Update) -> None:
        self._store = store
        self._first: Update | None = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Any) -> Any:
        if self._first is not None:
            first, self._first = self._first, None
            await self._store.write(first)
        return await self._store.write(*writes)


PLACE = "wf#pinned#one"


@pytest.mark.parametrize(
    ("first", "refused"),
    [
        (Update(partition=PLACE, owner="other", lease_until=1, add_epoch=1), "worked on"),
        (Update(partition=PLACE, status="TERMINATED", due_at=None, add_revision=1), "has ended"),
        (Update(partition=PLACE, due_at=1, add_revision=1), None),
        (Update(partition=PLACE, add_epoch=1), None),
    ],
    ids=["claimed", "terminated", "rung for", "worked on and let go of"],
)
def test_whoever_comes_between_the_look_and_the_move_is_seen(first: Update, refused: str | None) -> None:
    async def story() -> None:
        data = MemoryData()

        async def open_plain() -> Home:
            return open_memory_home(data=data)

        async def open_racing() -> Home:
            home = open_memory_home(data=data)
            return replace(home, store=Racing(home.store, first))

        ran: Counter[str] = Counter()
        old, new = hf.App("shop", home=open_plain), hf.App("shop", home=open_racing)
        tour(ran, "red")(old)
        tour(ran, "blue")(new)
        async with old, new:
            await old.registry.workflow("pinned").start("one", id="one")
            handle = new.handle("pinned", "one")
            if refused is None:
                await handle.move()
                head = await head_of(new.runtime(), PLACE)
                assert (await handle.status()).version == "blue"
                assert (head.revision, head.epoch) == (1 + first.add_revision, 1 + first.add_epoch)
                return
            with pytest.raises(InvalidState, match=refused):
                await handle.move()
            assert (await handle.status()).version == "red"

    run_virtual(story)


def test_one_that_is_worked_on_is_not_moved() -> None:
    async def story() -> None:
        data = MemoryData()

        async def open_home() -> Home:
            return open_memory_home(data=data)

        ran: Counter[str] = Counter()
        old, new = hf.App("shop", home=open_home), hf.App("shop", home=open_home)
        tour(ran, "red")(old)
        tour(ran, "blue")(new)
        async with old.worker(limits=hf.Limits(linger_seconds=60)):
            await old.registry.workflow("pinned").start("one", id="one")
            async with new:
                with pytest.raises(InvalidState, match="worked on"):
                    await new.handle("pinned", "one").move()
                with pytest.raises(InvalidState, match="not pinned"):
                    await new.handle("compatible", "one").move()

    run_virtual(story)


# ── What it costs ───────────────────────────────────────────────────────────────────────────────────────────────────


class Bill:
    """What the table, Lambda and the queue were asked for, since the last look."""

    def __init__(self, cloud: Releases) -> None:
        self._cloud = cloud
        self._seen: Counter[str] = Counter()

    def since(self) -> dict[str, int]:
        total = Counter({"Invoke": sum(self._cloud.asked.values()), "Messages": len(self._cloud.sqs.sent)})
        for store in self._cloud.stores:
            for operation, usage in store.meter.usage.items():
                total[operation] += usage.requests
        new, self._seen = total - self._seen, total
        return dict(new)


@pytest.mark.gentle("it counts requests")
@pytest.mark.parametrize("cloudy", [pytest.param("dynamodb", marks=pytest.mark.aws)], indirect=True)
def test_what_a_handover_costs(cloudy: Any) -> None:
    async def story(cloud: Releases) -> None:
        ran: Counter[str] = Counter()
        bill = Bill(cloud)
        cloud.deploy(tour(ran, "red"))
        for workflow in ("pinned", "compatible"):
            await cloud.invoke(start(workflow, "one"))
        pinned, compatible = ({"holdfast": "ring", "partition": f"wf#{name}#one"} for name in ("pinned", "compatible"))
        bill.since()
        await cloud.invoke(pinned)
        in_memory = {"UpdateItem": 2}
        assert bill.since() == in_memory, "claimed and let go of"
        begun = Counter({"GetItem": 1, "Query": 1})  # a new environment looks for events that a move has left elsewhere
        for ring, looked in ((compatible, {}), (pinned, {"GetItem": 1})):
            cloud._idle.clear()
            await cloud.invoke(ring)
            used = Counter({"UpdateItem": 2, "Query": 1}) + Counter(looked)
            assert bill.since() == begun + used, "whether it is wanted here, then its journal"
        cloud.deploy(tour(ran, "blue"))
        await cloud.invoke(pinned)
        await asyncio.sleep(1)
        assert bill.since() == begun + Counter(in_memory | {"GetItem": 1, "Invoke": 1})

    cloudy(story)
