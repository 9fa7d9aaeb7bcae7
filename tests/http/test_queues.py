"""Routes of queues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.http.conftest import Api

import holdfast as hf


@pytest.fixture
def app(memory_world) -> hf.App:
    return memory_world.app("shop")


@asynccontextmanager
async def working(app: hf.App) -> AsyncIterator[Api]:
    """An API of a worker whose queue is full, with another waiting."""
    mail = app.queue("mail", limit=1)

    @app.workflow(queue=mail)
    async def letter(to: str) -> str:
        await hf.sleep("1h")
        return to

    async with app.worker():
        first = await letter.start("ann", id="ann", queued=hf.Queued(key="a"))
        while (await first.status()).status not in ("SUSPENDED", "RUNNING"):
            await asyncio.sleep(0)
        await letter.start("bob", id="bob", queued=hf.Queued(key="b"))
        yield Api(app)


async def asked(api: Api, method: str, path: str, body: bytes = b"") -> tuple[int, dict]:
    response = await api.send(method, path, body)
    return response.status, json.loads(response.body)


async def test_queues_are_listed_and_shown(app) -> None:
    async with working(app) as api:
        status, told = await asked(api, "GET", "/v1/queues")
        assert (status, [(each["name"], each["waiting"]) for each in told["queues"]]) == (200, [("mail", 1)])
        status, told = await asked(api, "GET", "/v1/queues/shop%2Fmail")
        assert (status, told["slots"][0]["id"], told["first"][0]["id"], told["limit"]) == (200, "ann", "bob", 1)
        status, told = await asked(api, "GET", "/v1/queues/mail?key=b&first=1")
        assert (status, told["slots"], told["waiting"]) == (200, [], 1)


async def test_a_queue_is_changed(app) -> None:
    async with working(app) as api:
        assert await asked(api, "POST", "/v1/queues/mail/pause") == (200, {"queue": "mail", "action": "pause"})
        body = b'{"limit": 5, "rate": {"count": 9, "per": "1s"}}'
        assert (await asked(api, "POST", "/v1/queues/mail/set", body))[0] == 200
        _, told = await asked(api, "GET", "/v1/queues/mail")
        assert (told["paused"], told["limit"], told["rate"]["count"]) == (True, 5, 9)
        assert (await asked(api, "POST", "/v1/queues/mail/resume"))[0] == 200
        assert (await asked(api, "POST", "/v1/queues/mail/reset"))[0] == 200
        _, told = await asked(api, "GET", "/v1/queues/mail")
        assert (told["paused"], told["limit"], told["rate"]) == (False, 1, None)


async def test_a_purge_is_accepted_and_carried_out(app, eventually) -> None:
    async with working(app) as api:
        assert (await asked(api, "POST", "/v1/queues/mail/purge?key=a"))[0] == 202
        assert (await asked(api, "POST", "/v1/queues/mail/purge"))[0] == 202

        async def is_gone() -> bool:
            return (await asked(api, "GET", "/v1/workflows/letter/bob"))[1]["status"] == "CANCELLED"

        assert await eventually(is_gone)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[1]", b'{"limit": 0}', b'{"speed": 1}', b'{"rate": {"count": 0, "per": 1}}']
)
async def test_a_change_that_makes_no_sense_is_refused(body, app) -> None:
    async with working(app) as api:
        assert (await asked(api, "POST", "/v1/queues/mail/set", body))[0] == 400
        assert (await asked(api, "GET", "/v1/queues/mail"))[1]["limit"] == 1


async def test_a_queue_that_is_not_there_is_not_found(app) -> None:
    async with working(app) as api:
        status, told = await asked(api, "GET", "/v1/queues/males")
        assert (status, told["code"]) == (404, "not_found")


@pytest.mark.parametrize("action", ["purge", "pause", "resume", "reset"])
async def test_a_body_is_not_passed_over_where_none_is_read(action, app) -> None:
    async with working(app) as api:
        status, told = await asked(api, "POST", f"/v1/queues/mail/{action}", b'{"key": "zz"}')
        assert (status, told["code"]) == (400, "invalid_input")
        assert (await asked(api, "GET", "/v1/workflows/letter/bob"))[1]["status"] == "QUEUED"
        assert (await asked(api, "POST", f"/v1/queues/mail/{action}?foo=1"))[0] == 400
        assert (await asked(api, "POST", f"/v1/queues/mail/{action}", b"{}"))[0] in (200, 202)
