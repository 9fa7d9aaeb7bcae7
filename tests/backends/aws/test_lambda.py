"""The runtime on Lambda, in virtual time: on the store in memory, and the same on DynamoDB Local."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.backends.aws.cloud import Cloud, Context, Refusal, event_of
from tests.backends.aws.world import DynamoDatabase

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import InvalidInput
from holdfast.ports import Home
from holdfast.testing.virtual_time import run_virtual


class Shop:
    """What an environment runs, and what it did."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.step_seconds = 0.0
        self.broken = False
        self.began = asyncio.Event()

    def __call__(self, app: hf.App) -> None:
        shop = self

        @app.step
        async def charge(order: str) -> str:
            shop.began.set()
            await asyncio.sleep(shop.step_seconds)
            shop.effects[f"charge {order}"] += 1
            return f"charged {order}"

        class Till(hf.Actor, app=app, name="Till"):
            total: int = 0
            seen: list[str] = hf.field(default_factory=list)

            async def add(self, what: str, cents: int) -> int:
                if shop.broken:
                    raise ValueError("the till is stuck")
                self.total += cents
                self.seen = [*self.seen, what]
                return self.total

            @hf.read
            async def all(self) -> list[str]:
                return self.seen

        @app.workflow
        async def checkout(order: str, wait: str = "3s") -> list[object]:
            paid = await charge(order)
            await hf.sleep(wait)
            approved = await hf.signal("approved", bool)
            total = await Till.at("main").add(order, 5)
            return [paid, approved, total]

        @app.workflow
        async def quick(order: str) -> str:
            return await charge(order)

        @app.step(retry=hf.Retry(max_attempts=2, initial="1h"))
        async def reserve(order: str) -> str:
            shop.effects[f"reserve {order}"] += 1
            if shop.broken:
                raise ConnectionError("the warehouse is closed")
            return f"reserved {order}"

        @app.workflow(name="reservation")
        async def reservation(order: str) -> str:
            return await reserve(order)


@pytest.fixture(params=["memory", "dynamodb"])
def cloudy(request: pytest.FixtureRequest) -> Callable[[Callable[[Cloud, Shop], Any]], Any]:
    """``cloudy(story)`` runs ``story(cloud, shop)`` in virtual time."""
    if request.param == "dynamodb":
        client = request.getfixturevalue("client")
        database = DynamoDatabase(client)
        open_store: Callable[[str], Any] = database.open
    else:
        data = MemoryData()

        async def open_store(owner: str) -> Home:
            return open_memory_home(data=data, owner=owner)

    def run(story: Callable[[Cloud, Shop], Any]) -> Any:
        async def main() -> Any:
            shop = Shop()
            async with Cloud(open_store, shop) as cloud:
                return await story(cloud, shop)

        return run_virtual(main)

    return run


def start(workflow: str, id: str, *args: Any) -> dict[str, Any]:
    return {"holdfast": "start", "workflow": workflow, "id": id, "input": list(args)}


def status(workflow: str, id: str) -> dict[str, Any]:
    return {"holdfast": "status", "workflow": workflow, "id": id}


async def until_ended(cloud: Cloud, workflow: str, id: str) -> dict[str, Any]:
    while True:
        told = await cloud.invoke(status(workflow, id))
        if told["status"] in {"COMPLETED", "FAILED"}:
            return told
        await asyncio.sleep(1)


def test_a_short_workflow_ends_within_the_invocation_that_starts_it_and_nobody_is_called(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        told = await cloud.invoke(start("quick", "one", "one"))
        assert told == {"workflow": "quick", "id": "one", "status": "COMPLETED", "error": None, "result": "charged one"}
        assert await cloud.invoke(start("quick", "one", "one")) == told
        assert shop.effects == {"charge one": 1}
        assert cloud.sqs.requests == {}

    cloudy(story)


def test_a_workflow_with_a_step_a_sleep_a_signal_and_an_actor(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        due_at = cloud.clock.now_ms() + 3000
        told = await cloud.invoke(start("checkout", "one", "one"))
        assert told["status"] == "SUSPENDED"
        assert cloud.sqs.sent == [{"holdfast": "ring", "partition": "wf#checkout#one", "due_at": due_at}]
        assert cloud.sqs.delays == [3]
        await asyncio.sleep(10)
        await cloud.invoke(
            {"holdfast": "signal", "workflow": "checkout", "id": "one", "name": "approved", "value": True}
        )
        told = await cloud.invoke(status("checkout", "one"))
        assert told["result"] == ["charged one", True, 5]
        assert shop.effects == {"charge one": 1}
        assert len(cloud.sqs.sent) == 1, "an end, a message taken here and a reply are no reason to call anybody"
        assert cloud.invocations["batch"] == 1

    cloudy(story)


def test_messages_start_and_signal_and_repeats_are_one(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.doubles = 1  # each delivery comes twice, at the same time
        asked = {"holdfast": "start", "workflow": "checkout", "input": ["one"]}
        cloud.put(json.dumps(asked), 0, id="m1")
        await asyncio.sleep(5)
        signal = {"holdfast": "signal", "workflow": "checkout", "id": "m1", "name": "approved", "value": True}
        cloud.put(json.dumps(signal), 0, id="m2")
        told = await until_ended(cloud, "checkout", "m1")
        assert told["result"] == ["charged one", True, 5]
        assert shop.effects == {"charge one": 1}

    cloudy(story)


def test_many_executions_share_batches_and_environments(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        names = [f"o{n}" for n in range(12)]
        for name in names:
            cloud.put(json.dumps(start("checkout", name, name)), 0)
        await asyncio.sleep(1)
        for name in names:
            await cloud.invoke(
                {"holdfast": "signal", "workflow": "checkout", "id": name, "name": "approved", "value": True}
            )
        for name in names:
            assert (await until_ended(cloud, "checkout", name))["status"] == "COMPLETED"
        assert shop.effects == {f"charge {name}": 1 for name in names}
        seen = await cloud.invoke({"holdfast": "call", "actor": "Till", "key": "main", "method": "all"})
        assert sorted(seen) == sorted(names)

    cloudy(story)


def test_an_environment_that_dies_in_a_step_is_followed_by_another(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.begin_sweeping()
        shop.step_seconds = 20.0
        handler = cloud.environment()
        invocation = asyncio.ensure_future(cloud.invoke(start("checkout", "one", "one"), handler))
        await shop.began.wait()
        await asyncio.sleep(12)
        await cloud.kill(handler, invocation)
        assert shop.effects == {}
        shop.step_seconds = 0.0
        began = asyncio.get_running_loop().time()
        await cloud.invoke(
            {"holdfast": "signal", "workflow": "checkout", "id": "one", "name": "approved", "value": True}
        )
        assert (await until_ended(cloud, "checkout", "one"))["result"] == ["charged one", True, 5]
        assert asyncio.get_running_loop().time() - began < 60 + 60 + 5, "a lease runs out, and the next sweep finds it"
        assert shop.effects == {"charge one": 1}

    cloudy(story)


def test_a_step_that_does_not_end_in_time_is_let_go_of_and_taken_up_by_another_invocation(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.timeout_seconds = 10.0
        shop.step_seconds = 30.0
        told = asyncio.ensure_future(cloud.invoke(start("quick", "one", "one")))
        await asyncio.sleep(5)
        shop.step_seconds = 0.0
        assert (await told)["status"] == "SUSPENDED"
        assert cloud.sqs.sent == [{"holdfast": "ring", "partition": "wf#quick#one", **due(cloud.sqs.sent[0])}]
        told_again = await until_ended(cloud, "quick", "one")
        assert told_again["result"] == "charged one"
        assert shop.effects == {"charge one": 1}

    cloudy(story)


def test_a_queue_that_does_not_answer_keeps_no_invocation_beyond_its_time(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        shop.step_seconds = 30.0
        answers, send = asyncio.Event(), cloud.sqs.send

        async def slow(operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            await answers.wait()
            return await send(operation, parameters)

        cloud.sqs.send = slow  # type: ignore[method-assign]
        handler = cloud.environment()
        began = asyncio.get_running_loop().time()
        told = await handler.invoke(start("quick", "one", "one"), Context(3.0, "request"))
        assert told["status"] == "SUSPENDED"
        assert asyncio.get_running_loop().time() - began < 3.0
        answers.set()

    cloudy(story)


def test_an_environment_whose_time_was_up_serves_again(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.timeout_seconds = 10.0
        shop.step_seconds = 30.0
        handler = cloud.environment()
        assert (await cloud.invoke(start("quick", "one", "one"), handler))["status"] == "SUSPENDED"
        shop.step_seconds = 0.0
        assert (await cloud.invoke(start("quick", "two", "two"), handler))["status"] == "COMPLETED"

    cloudy(story)


def due(ring: dict[str, Any]) -> dict[str, Any]:
    return {"due_at": ring["due_at"]} if "due_at" in ring else {}


def test_a_long_sleep_is_ended_by_a_sweep_that_saw_it_coming(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.begin_sweeping()
        await asyncio.sleep(17.5)
        began = cloud.clock.now_ms()
        await cloud.invoke(start("checkout", "one", "one", "2d"))
        await cloud.invoke(
            {"holdfast": "signal", "workflow": "checkout", "id": "one", "name": "approved", "value": True}
        )
        assert cloud.sqs.sent == []
        await asyncio.sleep(2 * 86_400 + 1.5)
        told = await cloud.invoke(status("checkout", "one"))
        assert told["result"] == ["charged one", True, 5]
        assert cloud.clock.now_ms() - began < (2 * 86_400 + 2) * 1000
        assert cloud.sqs.delays == [18], "at the sweep before, to the second"
        assert cloud.invocations["batch"] == 1

    cloudy(story)


def test_a_batch_answers_for_each_message_by_itself(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        call = {"holdfast": "call", "actor": "Till", "key": "main", "method": "add", "args": ["x", 1]}
        shop.broken = True
        answer = await cloud.invoke(
            event_of(
                ("good", json.dumps(start("quick", "one", "one"))),
                ("no json", "{"),
                ("unknown", json.dumps({"holdfast": "dance"})),
                ("no such workflow", json.dumps(start("nothing", "x"))),
                ("of somebody else", json.dumps({"holdfast": "ring", "partition": "wf#nothing#x"})),
                ("raises", json.dumps(call)),
                ("ring", json.dumps({"holdfast": "ring", "partition": "wf#quick#not-there"})),
            )
        )
        failed = ["no json", "unknown", "no such workflow", "of somebody else", "raises"]
        assert answer == {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}
        assert shop.effects == {"charge one": 1}

    cloudy(story)


def test_messages_come_again_if_the_store_was_out_of_reach(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        await cloud.invoke(start("checkout", "one", "one"))
        ring = event_of(("ring", json.dumps({"holdfast": "ring", "partition": "wf#checkout#one"})))
        cloud.is_down = True
        assert await cloud.invoke(ring) == {"batchItemFailures": [{"itemIdentifier": "ring"}]}
        cloud.is_down = False
        assert await cloud.invoke(ring) == {"batchItemFailures": []}

    cloudy(story)


def test_a_batch_that_is_not_done_in_time_is_answered_in_time(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.timeout_seconds = 10.0
        shop.step_seconds = 30.0
        begun = asyncio.get_running_loop().time()
        add = {"holdfast": "call", "actor": "Till", "key": "main", "method": "add", "args": ["x", 1]}
        first = json.dumps(start("quick", "one", "one"))
        assert await cloud.invoke(event_of(("start", first), ("call", json.dumps(add)))) == {"batchItemFailures": []}
        assert asyncio.get_running_loop().time() - begun < cloud.timeout_seconds
        assert [each["partition"] for each in cloud.sqs.sent] == ["wf#quick#one"], "what was cut off goes on elsewhere"

    cloudy(story)


def test_ordered_messages_are_calls_and_a_failure_holds_up_its_group_only(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        def add(id: str, what: str, method: str = "add") -> tuple[str, str]:
            return (id, json.dumps({"actor": "Till", "method": method, "args": {"what": what, "cents": 1}}))

        one = event_of(add("a1", "first"), add("a2", "second"), group="a")
        await cloud.invoke(one)
        two = event_of(add("a1", "first"), add("a3", "third"), add("a4", "x", "dance"), add("a5", "fifth"), group="a")
        two["Records"] += event_of(add("b1", "other"), group="b")["Records"]
        assert await cloud.invoke(two) == {"batchItemFailures": [{"itemIdentifier": "a4"}, {"itemIdentifier": "a5"}]}
        asked = {"holdfast": "call", "actor": "Till", "method": "all"}
        assert await cloud.invoke(asked | {"key": "a"}) == ["first", "second", "third"]
        assert await cloud.invoke(asked | {"key": "b"}) == ["other"]

    cloudy(story)


def test_lost_rings_are_repaired_by_the_sweep(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.sqs.broken = [Refusal("AWS.SimpleQueueService.NonExistentQueue")]
        cloud.begin_sweeping()
        await cloud.invoke(start("checkout", "one", "one"))
        await cloud.invoke(
            {"holdfast": "signal", "workflow": "checkout", "id": "one", "name": "approved", "value": True}
        )
        assert cloud.told == {"ring_failed": 1}
        assert (await until_ended(cloud, "checkout", "one"))["status"] == "COMPLETED"
        assert cloud.sqs.sent == []

    cloudy(story)


def test_a_ring_that_comes_too_early_by_our_clock_is_sent_again(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        await cloud.invoke(start("checkout", "one", "one", "30s"))
        await cloud.invoke(event_of(("early", json.dumps({"holdfast": "ring", "partition": "wf#checkout#one"}))))
        assert cloud.sqs.delays == [30, 30]

    cloudy(story)


def test_a_sleeper_that_is_disturbed_calls_nobody_anew(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        await cloud.invoke(start("checkout", "one", "one", "80s"))
        for n in range(3):
            asked = {"holdfast": "signal", "workflow": "checkout", "id": "one", "name": f"other {n}"}
            await cloud.invoke(asked)
        assert cloud.sqs.delays == [80]

    cloudy(story)


def test_a_client_rings_once_for_what_it_starts(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        app = cloud.app()
        async with app:
            handle = await app.registry.workflow("quick").start("one", id="one")
            assert await handle == "charged one"
            assert await app.registry.workflow("quick").start("one", id="one")
        assert cloud.sqs.sent == [{"holdfast": "ring", "partition": "wf#quick#one"}]

    cloudy(story)


def test_leases_and_streams_ring_for_nobody(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        app = cloud.app()
        async with app:
            async with app.lease("nightly"):
                pass
            await app.stream(str, "a").append("one")
        assert cloud.sqs.requests == {}

    cloudy(story)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"detail": {}, "source": "shop"}, "detail, source"),
        ({"Records": [{"eventSource": "aws:s3"}]}, "aws:s3"),
        ({"holdfast": "dance"}, "dance"),
        ([1], "list"),
        ({}, "keys"),
    ],
)
def test_an_event_of_an_unknown_shape_is_an_error_that_names_it(event: Any, said: str) -> None:
    app = hf.App("shop", home="memory://")
    handler = app.lambda_handler()
    with pytest.raises(InvalidInput, match=said):
        handler(event)
    handler.close()


def test_a_handler_keeps_one_loop_and_one_app_from_invocation_to_invocation() -> None:
    app = hf.App("shop", home="memory://")
    shop = Shop()
    shop(app)
    handler = app.lambda_handler()
    assert handler(start("quick", "one", "one"))["result"] == "charged one"
    crew = handler._worker
    assert handler(start("quick", "two", "two"))["result"] == "charged two"
    assert handler._worker is crew is not None
    handler.close()


def do(verb: str, workflow: str, id: str, **fields: Any) -> dict[str, Any]:
    return {"holdfast": verb, "workflow": workflow, "id": id, **fields}


def test_a_delayed_start_begins_when_it_is_due_and_not_before(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.begin_sweeping()
        told = await cloud.invoke(start("quick", "q-1", "book") | {"delay": "2h", "timeout": "1m"})
        assert told["status"] == "READY"
        await asyncio.sleep(7_100)
        assert not shop.effects
        await asyncio.sleep(300)
        assert (await cloud.invoke(status("quick", "q-1")))["result"] == "charged book"
        assert shop.effects == {"charge book": 1}

    cloudy(story)


def test_every_verb_is_a_command(cloudy: Any) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        shop.broken = True
        await cloud.invoke(start("reservation", "r-1", "book"))
        shop.broken = False
        await cloud.invoke(do("retry-now", "reservation", "r-1"))
        assert (await until_ended(cloud, "reservation", "r-1"))["result"] == "reserved book"
        forked = await cloud.invoke(do("fork", "reservation", "r-1", new_id="r-2", before="reserve#0"))
        assert forked == {"workflow": "reservation", "id": "r-2"}
        assert (await until_ended(cloud, "reservation", "r-2"))["result"] == "reserved book"
        await cloud.invoke(start("checkout", "c-1", "book", "1d"))
        for verb, standing in (("pause", "PAUSED"), ("resume", "SUSPENDED"), ("terminate", "TERMINATED")):
            await cloud.invoke(do(verb, "checkout", "c-1"))
            assert (await cloud.invoke(status("checkout", "c-1")))["status"] == standing
        await cloud.invoke(start("checkout", "c-2", "book", "1d"))
        await cloud.invoke(do("cancel", "checkout", "c-2", reason="enough"))
        await cloud.invoke(do("retry", "checkout", "c-2"))
        assert (await cloud.invoke(status("checkout", "c-2")))["status"] == "SUSPENDED"
        await cloud.invoke(do("delete", "checkout", "c-1"))
        with pytest.raises(hf.NotFound):
            await cloud.invoke(status("checkout", "c-1"))

    cloudy(story)


@pytest.mark.parametrize(
    "verb", ["signal", "cancel", "terminate", "pause", "resume", "retry", "retry-now", "delete", "fork", "status"]
)
def test_what_is_not_there_is_not_found(cloudy: Any, verb: str) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        fields = {"name": "approved"} if verb == "signal" else {}
        with pytest.raises(hf.NotFound, match="there is no execution 'nobody' of workflow 'checkout'"):
            await cloud.invoke(do(verb, "checkout", "nobody", **fields))

    cloudy(story)
