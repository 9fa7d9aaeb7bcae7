"""Several functions of one home: each works on what is left to it, whichever of them is called."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.aws import parse_address
from holdfast.backends.aws.bellringer import Bellringer
from holdfast.backends.aws.routes import Routes, parse_routes, routes_text
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.clock import SystemClock
from holdfast.errors import ConfigurationError
from holdfast.kernel.dispatch import FRESH_MS
from holdfast.ports import Home, WakeUp
from holdfast.runtime.lambda_ import LambdaHandler
from holdfast.workflows.record import decode_record, partition_of

ROUTES = "wf/render:pdf,actor/Printer:pdf"
URL = f"aws://shop?region=eu-west-1&routes={ROUTES}"


def test_the_url_says_which_function_works_on_what() -> None:
    routes = parse_address(f"{URL}&function=pdf").parsed_routes()
    assert routes.serves("wf#render#1")
    assert routes.serves("actor#Printer#wf#render")
    assert not routes.serves("wf#checkout#1")
    assert not routes.serves("wf#renderer#1")
    assert not routes.serves("out#shop")
    main = parse_address(f"{URL}&function=main").parsed_routes()
    assert main.serves("wf#checkout#1")
    assert main.serves("out#shop")
    assert not main.serves("wf#render#1")
    assert main.queues == ("doorbell", "doorbell-pdf")


def test_a_worker_of_a_user_works_on_everything_and_so_does_a_function_without_routes() -> None:
    for url in (URL, "aws://shop?region=eu-west-1"):
        routes = parse_address(url).parsed_routes()
        assert routes.serves("wf#render#1")
        assert routes.serves("wf#checkout#1")


def test_routes_are_written_as_they_are_read() -> None:
    assert routes_text(parse_routes(ROUTES, None).functions) == "actor/Printer:pdf,wf/render:pdf"
    assert parse_routes("", None) == Routes()
    for wrong in ("render:pdf", "wf/render", "wf/:pdf", ",", "/render:pdf"):
        with pytest.raises(ConfigurationError, match="is no route"):
            parse_routes(wrong, None)


async def test_wake_ups_go_to_the_queue_of_the_function_from_every_process() -> None:
    sent: list[tuple[str, list[str]]] = []

    class Sqs:
        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            if operation == "GetQueueUrl":
                return {"QueueUrl": parameters["QueueName"]}
            sent.append((parameters["QueueUrl"], [each["MessageBody"] for each in parameters["Entries"]]))
            return {}

        def close(self) -> None: ...

    ringer: Bellringer = parse_address(URL).bells(Sqs())
    partitions = [f"wf#render#{n}" for n in range(11)] + ["wf#checkout#1", "actor#Printer#a"]
    assert await ringer.send([WakeUp(each) for each in partitions], 0) == []
    counts = Counter({queue: 0 for queue, _ in sent})
    for queue, bodies in sent:
        counts[queue] += len(bodies)
        assert all(("render" in body or "Printer" in body) == queue.endswith("-pdf") for body in bodies)
    assert counts == {"shop-holdfast-doorbell": 1, "shop-holdfast-doorbell-pdf": 12}


# ── Two functions ───────────────────────────────────────────────────────────────────────────────────────────────────


class Fleet:
    """The functions of one home, in one process, and what they have had called and run."""

    def __init__(self, *functions: str) -> None:
        self.data = MemoryData()
        self.called: list[WakeUp] = []
        self.ran: list[tuple[str, str]] = []
        self.functions = {each: self._function(each) for each in functions}

    def _function(self, name: str) -> LambdaHandler:
        async def open_home() -> Home:
            home = open_memory_home(data=self.data, owner=name)
            routes = parse_routes(f"{ROUTES},wf/pinned:pdf", name)
            return replace(home, invoker=self, doorbell=Bell(self), serves=routes.serves, versions=Version(name))

        app = hf.App("shop", home=open_home)

        @app.step
        async def note(what: str) -> str:
            self.ran.append((name, what))
            return what

        @app.workflow
        async def render(order: str) -> str:
            return await note("render") + str(await Printer.at("a").count())

        @app.workflow(versions="pinned")
        async def pinned(order: str) -> str:
            return await note("pinned")

        @app.workflow
        async def checkout(order: str) -> str:
            return await note("checkout") + await render(order)

        class Printer(hf.Actor, app=app):
            pages: int = 0

            async def count(inner) -> int:  # noqa: N805 - self is the fleet
                self.ran.append((name, "Printer"))
                inner.pages += 1
                return inner.pages

        return app.lambda_handler()

    def wake_at(self, partition: str, due_at: int) -> None:
        self.called.append(WakeUp(partition, due_at))

    async def call(self, wake_ups: Any) -> list[WakeUp]:
        self.called += wake_ups
        return []

    async def sent(self) -> None: ...

    async def deliver(self, queue_of: Any) -> int:
        """Hand every wake-up to a function; how many there were."""
        now, self.called = self.called, []
        for each in now:
            message = {"eventSource": "aws:sqs", "messageId": "m", "body": wake_up_text(each)}
            answer = await self.functions[queue_of(each.partition)].invoke({"Records": [message]})
            assert answer == {"batchItemFailures": []}
        return len(now)

    async def close(self) -> None:
        for each in self.functions.values():
            await each.aclose()


def wake_up_text(wake_up: WakeUp) -> str:
    return f'{{"holdfast": "ring", "partition": "{wake_up.partition}"}}'


class Version:
    """The published version that a function runs."""

    def __init__(self, name: str) -> None:
        self.own = f"{name}:7"


class Bell:
    """Every wake-up is a message."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def ring(self, partition: str) -> None:
        self._fleet.wake_at(partition, 0)

    def listen(self, heard: Any) -> None: ...

    def alive(self, owner: str) -> bool:
        return True

    def peers(self) -> frozenset[str]:
        return frozenset()

    async def close(self) -> None: ...


START = {"holdfast": "start", "workflow": "checkout", "id": "1", "input": ["o"]}
LOOK = {"holdfast": "status", "workflow": "checkout", "id": "1"}
right = parse_routes(ROUTES, None).function_of


@pytest.mark.parametrize(
    "queue_of",
    [
        pytest.param(right, id="right function"),
        pytest.param(lambda partition: "main", id="all at the main one"),
        pytest.param(lambda partition: "pdf", id="all at the other one"),
    ],
)
@pytest.mark.parametrize("first", ["main", "pdf"])
async def test_each_function_works_on_its_own_whichever_is_called(first: str, queue_of: Any) -> None:
    fleet = Fleet("main", "pdf")
    await fleet.functions[first].invoke(START)
    rounds = 0
    while await fleet.deliver(queue_of if rounds < 3 else right):
        rounds += 1
        assert rounds < 20, "wake-ups go round for ever"
    assert (await fleet.functions["main"].invoke(LOOK))["result"] == "checkoutrender1"
    assert fleet.ran == [("main", "checkout"), ("pdf", "render"), ("pdf", "Printer")]
    await fleet.close()


async def test_an_execution_is_pinned_to_a_version_of_the_function_that_works_on_it() -> None:
    """One of the function that started it would pass a call for it on, and that one back, for ever."""
    fleet = Fleet("main", "pdf")
    await fleet.functions["main"].invoke({"holdfast": "start", "workflow": "pinned", "id": "1", "input": ["o"]})

    async def published() -> str:
        item = await open_memory_home(data=fleet.data).store.get(partition_of("pinned", "1"))
        assert item is not None
        return decode_record(item.body).published

    assert await published() == ""
    await fleet.deliver(lambda partition: "main")
    await fleet.deliver(lambda partition: "pdf")
    assert fleet.ran == [("pdf", "pinned")]
    assert await published() == "pdf:7"
    await fleet.close()


class Later:
    """When what has become due is not fresh any more."""

    def now_ms(self) -> int:
        return SystemClock().now_ms() + 2 * FRESH_MS


async def test_a_sweep_of_the_main_function_has_the_others_called() -> None:
    fleet = Fleet("main", "pdf")
    await fleet.functions["main"].invoke({"holdfast": "start", "workflow": "render", "id": "1", "input": ["o"]})
    assert fleet.ran == []
    fleet.called.clear()  # the wake-up is lost
    worker = fleet.functions["main"]._worker
    assert worker is not None
    worker.host.clock = Later()
    await fleet.functions["main"].invoke({"holdfast": "sweep"})
    assert [each.partition for each in fleet.called] == ["wf#render#1"]
    await fleet.deliver(right)
    assert fleet.ran == [("pdf", "render"), ("pdf", "Printer")]
    await fleet.close()
