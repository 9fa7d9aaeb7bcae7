"""News for open pages: an event says that a page is old, and each stream ends."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.dashboard.conftest import Person, tokens

import holdfast as hf
from holdfast.dashboard import live

PATIENCE_SECONDS = 60


class Stream:
    """An open page that listens."""

    def __init__(self) -> None:
        self.status = 0
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.has_ended = asyncio.Event()

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                text = await self.events.get()
                if text.startswith("event: "):
                    return text.split("\n")[0].removeprefix("event: ")


@asynccontextmanager
async def listening(person: Person, watch: str):
    stream, gone = Stream(), asyncio.Event()

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            stream.status = message["status"]
        elif message.get("body"):
            stream.events.put_nowait(message["body"].decode())

    cookie = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "GET",
        "path": "/dashboard/events",
        "query_string": f"watch={watch}".encode(),
        "headers": [(b"host", b"127.0.0.1:8080"), (b"cookie", cookie.encode())],
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 50000),
    }

    async def serve():
        await person.api(scope, receive, send)
        stream.has_ended.set()

    serving = asyncio.create_task(serve())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not stream.status:
                await asyncio.sleep(0)
        yield stream
    finally:
        gone.set()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.fixture
def never_looks(monkeypatch):
    """Only hints are heard: no page looks by itself."""
    monkeypatch.setattr(live, "LOOK_SECONDS", 3_600.0)


def woken(app: hf.App, *partitions: str | None) -> None:
    """Another process has rung for these."""
    for each in partitions:
        app.runtime().wake_listeners.heard(each)


async def test_a_page_hears_what_it_shows_and_no_more_often_than_four_times_a_second(shop, person, never_looks):
    async with shop:
        await person.log_in()
        loop = asyncio.get_running_loop()
        async with listening(person, "executions") as stream:
            await stream.events.get()
            began = loop.time()
            woken(shop, *(f"wf#checkout#a{n}" for n in range(100)))
            assert await stream.next() == "stale"
            woken(shop, None)
            assert await stream.next() == "stale"
            assert loop.time() - began >= 2 * live.SHORTEST_PAUSE_SECONDS
            assert stream.events.empty(), "they come together"


async def test_a_page_of_one_execution_hears_nothing_of_others(shop, person, never_looks):
    async with shop:
        await person.log_in()
        async with listening(person, '["execution","approval","a"]') as stream:
            await stream.events.get()
            woken(shop, "wf#approval#other", "wf#checkout#a", "actor#approval#a")
            await asyncio.sleep(2 * live.SHORTEST_PAUSE_SECONDS)
            assert stream.events.empty()
            woken(shop, "wf#approval#a")
            assert await stream.next() == "stale"


async def test_a_tenant_hears_of_its_own_alone(shop, never_looks):
    async with shop:
        person = Person(shop, authenticate=tokens())
        await person.log_in("acme")
        async with listening(person, "home") as stream:
            await stream.events.get()
            woken(shop, "wf#checkout#other/1", "actor#Basket#other", "outbox#shop")
            await asyncio.sleep(2 * live.SHORTEST_PAUSE_SECONDS)
            assert stream.events.empty()
            woken(shop, "wf#checkout#acme/1")
            assert await stream.next() == "stale"


async def test_a_page_looks_by_itself_after_a_while(shop, person, monkeypatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.3)
    async with shop:
        await person.log_in()
        async with listening(person, "executions") as stream:
            assert await stream.next() == "stale"


async def test_a_stream_ends_when_the_server_stops(shop, person, never_looks):
    async with shop:
        await person.log_in()
        async with listening(person, "executions") as stream:
            await stream.events.get()
            person.api.end_waits()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await stream.has_ended.wait()


async def test_a_stream_lasts_a_while_so_that_a_server_that_does_not_say_so_can_stop(
    shop, person, never_looks, monkeypatch
):
    monkeypatch.setattr(live, "STREAM_SECONDS", 0.05)
    async with shop:
        await person.log_in()
        async with listening(person, "executions") as stream:
            assert await stream.next() == "stale", "nothing is missed between two streams"
            assert await stream.next() == "again"
            async with asyncio.timeout(PATIENCE_SECONDS):
                await stream.has_ended.wait()


async def test_a_stream_ends_with_its_session(shop, person, never_looks):
    async with shop:
        await person.log_in()
        page = await person.get("/dashboard/executions")
        async with listening(person, "executions") as stream:
            await stream.events.get()
            csrf = page.page.all("input", name="csrf")[0].attributes["value"]
            await person.post("/dashboard/logout", {"csrf": csrf})
            assert await stream.next() == "over"
            async with asyncio.timeout(PATIENCE_SECONDS):
                await stream.has_ended.wait()


async def test_a_stream_ends_if_another_process_ended_its_session(shop, person, monkeypatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    async with shop:
        await person.log_in()
        page = await person.get("/dashboard/executions")
        async with listening(person, "executions") as stream:
            elsewhere = Person(shop, authenticate=tokens())
            elsewhere.cookies = dict(person.cookies)
            csrf = page.page.all("input", name="csrf")[0].attributes["value"]
            await elsewhere.post("/dashboard/logout", {"csrf": csrf})
            while (told := await stream.next()) == "stale":
                pass
            assert told == "over"


async def test_there_are_only_so_many_streams_and_nothing_is_heard_without_one(shop, person, monkeypatch, never_looks):
    monkeypatch.setattr(live, "MOST_STREAMS_OF_SESSION", 1)
    async with shop:
        await person.log_in()
        listeners = shop.runtime().wake_listeners
        async with listening(person, "executions") as stream:
            await stream.events.get()
            assert listeners._for_all
            async with listening(person, "executions") as other:
                assert other.status == 503
        await asyncio.sleep(0)
        assert not listeners._for_all
        assert (await person.get("/dashboard/events?watch=nonsense")).status == 400
        assert (await person.get("/dashboard/events")).status == 400
        assert (await Person(shop, authenticate=tokens()).get("/dashboard/events?watch=home")).status == 303


async def test_streams_that_are_asked_for_at_once_are_no_more_than_others(shop, person, monkeypatch, never_looks):
    monkeypatch.setattr(live, "MOST_STREAMS_OF_SESSION", 2)
    async with shop, AsyncExitStack() as pages:
        await person.log_in()
        opened = await asyncio.gather(*(pages.enter_async_context(listening(person, "executions")) for _ in range(6)))
        assert {each.status for each in opened} <= {200, 503}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(not each.has_ended.is_set() for each in opened) > 2:
                await asyncio.sleep(0)
        assert sum(each.events.qsize() for each in opened) == 2


def test_a_page_is_about_what_it_names():
    assert live.watched("executions")("wf#a#b")
    assert not live.watched("executions")("actor#A#b")
    assert live.watched('["execution","a","b/c"]')("wf#a#b/c")
    for wrong in ("", "x", "[", '["execution"]', '["execution","a"]', "[1]"):
        with pytest.raises(hf.InvalidInput):
            live.watched(wrong)
