"""HTTP requests to a function of Lambda, what is done at once, what is left to others; who may call."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.backends.aws.cloud import Cloud
from tests.http.test_lambda_events import ARN, DOORS, function_url

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.runtime.lambda_ import LambdaHandler
from holdfast.testing.virtual_time import run_virtual

TILL = "7" * 64
TOKENS = hf.BearerTokens({"till": TILL, "grafana": "1" * 64}, rights={"grafana": ["read"]})


@dataclass
class Placed:
    order: str


class Shop:
    """What an environment runs, and what it did."""

    def __init__(self, http: Any = TOKENS) -> None:
        self.http = http
        self.effects: Counter[str] = Counter()
        self.step_seconds = 0.0
        self.tokens: list[str] = []

    def __call__(self, app: hf.App) -> None:
        shop = self

        @app.step
        async def charge(order: str) -> str:
            await asyncio.sleep(shop.step_seconds)
            shop.effects[f"charge {order}"] += 1
            return f"charged {order}"

        @app.workflow
        async def checkout(order: str) -> str:
            return await charge(order)

        @app.step
        async def tell(token: str) -> None:
            shop.tokens.append(token)

        @app.workflow
        async def parcel(order: str) -> str:
            callback = hf.callback(str)
            await tell(callback.token)
            await charge(await callback)
            return order

        @app.consumer(Placed)
        async def bill(event: Placed) -> None:
            shop.effects[f"bill {event.order}"] += 1

        class Till(hf.Actor, app=app, name="Till"):
            total: int = 0

            async def add(self, cents: int) -> int:
                await asyncio.sleep(shop.step_seconds)
                self.total += cents
                return self.total


class HttpCloud(Cloud):
    """With environments that answer HTTP."""

    shop: Shop

    def environment(self) -> LambdaHandler:
        handler = self.app().lambda_handler(http=self.shop.http)
        self.environments.append(handler)
        return handler


def cloudy(story: Callable[[HttpCloud, Shop], Any], http: Any = TOKENS) -> None:
    async def main() -> None:
        shop, data = Shop(http), MemoryData()

        async def open_store(owner: str) -> Home:
            return open_memory_home(data=data, owner=owner)

        cloud = HttpCloud(open_store, shop)
        cloud.shop = shop
        async with cloud:
            await story(cloud, shop)

    run_virtual(main)


def request(method: str, path: str, query: str = "", token: str | None = TILL, **more: Any) -> dict[str, Any]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return function_url(method, path, iam=False, rawQueryString=query, headers=headers, cookies=[], **more)


async def ask(cloud: Cloud, *args: Any, handler: LambdaHandler | None = None, **more: Any) -> tuple[int, Any]:
    answer = await cloud.invoke(request(*args, **more), handler)
    return answer["statusCode"], json.loads(answer["body"]) if answer["body"] else None


def test_a_start_that_nobody_waits_for_is_answered_at_once_and_done_by_whoever_is_rung_for() -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        shop.step_seconds = 40.0
        began = asyncio.get_running_loop().time()
        status, told = await ask(cloud, "POST", "/v1/workflows/checkout/a", body='["a"]')
        assert (status, told["status"]) == (202, "READY")
        assert asyncio.get_running_loop().time() - began < 1
        assert cloud.sqs.sent == [{"holdfast": "ring", "partition": "wf#checkout#a"}]
        await asyncio.sleep(50)
        status, told = await ask(cloud, "GET", "/v1/workflows/checkout/a")
        assert (status, told["result"]) == (200, "charged a")
        assert shop.effects == {"charge a": 1}

    cloudy(story)


def test_a_start_that_is_waited_for_is_done_by_the_invocation_itself() -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        status, told = await ask(cloud, "POST", "/v1/workflows/checkout/a", "wait=10s", body='["a"]')
        assert (status, told["result"]) == (200, "charged a")
        assert cloud.sqs.requests == {}

    cloudy(story)


def test_an_answer_leaves_when_what_it_set_off_is_settled_though_nobody_waits_so_long() -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        shop.step_seconds = 20.0
        began = asyncio.get_running_loop().time()
        status, told = await ask(cloud, "POST", "/v1/workflows/checkout/a", "wait=2s", body='["a"]')
        assert (status, told["status"]) == (202, "RUNNING"), "as it stood when the wait was over"
        assert 20 <= asyncio.get_running_loop().time() - began < 22
        assert shop.effects == {"charge a": 1}
        assert cloud.sqs.requests == {}

    cloudy(story)


def test_an_event_and_a_message_are_accepted_and_handled_by_whoever_is_rung_for() -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        assert (await ask(cloud, "POST", "/v1/events/Placed", body='{"order": "o"}'))[0] == 202
        assert (await ask(cloud, "POST", "/v1/actors/Till/main/add/send", body="[5]"))[0] == 202
        await asyncio.sleep(5)
        assert len(cloud.sqs.sent) == 2
        assert shop.effects == {"bill o": 1}
        assert (await ask(cloud, "POST", "/v1/actors/Till/main/add", body="[1]"))[1] == {"result": 6}

    cloudy(story)


def test_a_call_is_done_by_the_invocation_itself_once_per_request_id() -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        for _ in range(2):
            headers = {"authorization": f"Bearer {TILL}", "request-id": "r-1"}
            event = request("POST", "/v1/actors/Till/main/add", body="[5]") | {"headers": headers}
            answer = await cloud.invoke(event)
            assert (answer["statusCode"], answer["body"]) == (200, '{"result":5}')
        assert cloud.sqs.requests == {}

    cloudy(story)


def test_time_that_runs_out_on_a_call_is_a_504_and_the_same_request_again_is_applied_once() -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        shop.step_seconds = 8.0
        cloud.timeout_seconds = 5.0
        event = request("POST", "/v1/actors/Till/main/add", "wait=25s", body="[5]")
        event["headers"]["request-id"] = "r-1"
        asked = asyncio.ensure_future(cloud.invoke(event))
        await asyncio.sleep(2)
        cloud.timeout_seconds, shop.step_seconds = 60.0, 0.0
        answer = await asked
        assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (504, "wait_timeout")
        for _ in range(2):
            assert (await cloud.invoke(event))["body"] == '{"result":5}'

    cloudy(story)


def test_time_that_runs_out_on_a_wait_answers_how_it_stands() -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        shop.step_seconds = 30.0
        cloud.timeout_seconds = 10.0
        asked = asyncio.ensure_future(ask(cloud, "POST", "/v1/workflows/checkout/a", "wait=25s", body='["a"]'))
        await asyncio.sleep(5)
        shop.step_seconds, cloud.timeout_seconds = 0.0, 60.0
        status, told = await asked
        assert status == 202
        assert told["status"] not in {"COMPLETED", "FAILED"}
        await asyncio.sleep(5)
        assert (await ask(cloud, "GET", "/v1/workflows/checkout/a"))[1]["result"] == "charged a"

    cloudy(story)


def test_a_callback_by_its_url_needs_no_more_than_the_token_and_its_sender_waits_for_no_step() -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        await ask(cloud, "POST", "/v1/workflows/parcel/p", body='["p"]')
        await asyncio.sleep(5)
        (token,) = shop.tokens
        shop.step_seconds = 40.0
        began = asyncio.get_running_loop().time()
        path = f"/v1/callbacks/{token}"
        assert (await ask(cloud, "POST", f"{path}/heartbeat", token=None))[0] == 204
        assert (await ask(cloud, "POST", path, token=None, body='"x"'))[0] == 204
        assert asyncio.get_running_loop().time() - began < 1
        await asyncio.sleep(50)
        assert shop.effects == {"charge x": 1}
        forged = token[:-1] + ("A" if token[-1] != "A" else "B")
        refused = [await ask(cloud, "POST", f"/v1/callbacks/{each}", token=None, body="1") for each in (token, forged)]
        assert [each[0] for each in refused] == [404, 404]
        assert refused[0] == refused[1], "used and forged are told alike"

    cloudy(story)


@pytest.mark.parametrize(
    ("token", "method", "path", "status"),
    [
        (None, "GET", "/v1/workflows", 401),
        ("8" * 64, "GET", "/v1/workflows", 401),
        ("1" * 64, "GET", "/v1/workflows", 200),
        ("1" * 64, "POST", "/v1/workflows/checkout/a", 403),
        (TILL, "POST", "/v1/workflows/checkout/a", 400),
        (None, "GET", "/v1/health", 200),
        (None, "GET", "/v1/nothing", 404),
    ],
)
def test_who_may_do_what(token: str | None, method: str, path: str, status: int) -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        assert (await ask(cloud, method, path, token=token, body=None))[0] == status
        assert shop.effects == {}

    cloudy(story)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_iam_callers_are_those_whom_the_door_knows(door: Callable[..., dict[str, Any]]) -> None:
    async def story(cloud: HttpCloud, shop: Shop) -> None:
        answer = await cloud.invoke(
            door("GET", "/v1/workflows", rawQueryString="")
            | {"queryStringParameters": None}
            | {"multiValueQueryStringParameters": None}
        )
        assert answer["statusCode"] == (401 if "balancer" in door.__name__ else 200)

    cloudy(story, hf.iam_caller)


def test_a_function_of_ones_own_may_give_those_whom_iam_knows_fewer_rights() -> None:
    def rights(request: hf.Request) -> hf.Caller | None:
        return hf.Caller("ann", frozenset({hf.Right.READ})) if hf.iam_caller(request) == ARN else None

    async def story(cloud: HttpCloud, shop: Shop) -> None:
        one = await cloud.invoke(function_url("GET", "/v1/workflows", rawQueryString=""))
        two = await cloud.invoke(function_url("POST", "/v1/workflows/checkout/a", rawQueryString=""))
        assert (one["statusCode"], two["statusCode"]) == (200, 403)

    cloudy(story, rights)


def test_limits_hold_and_a_body_may_be_base_64() -> None:
    app = hf.App("shop", home="memory://")
    Shop()(app)
    handler = app.lambda_handler(http=TOKENS, limits=hf.HttpLimits(body_bytes=100))
    encoded = base64.b64encode(b'["a"]').decode()
    event = request("POST", "/v1/workflows/checkout/a", "wait=10s", body=encoded, isBase64Encoded=True)
    assert json.loads(handler(event)["body"])["result"] == "charged a"
    assert handler(request("POST", "/v1/workflows/checkout/b", body="[" + " " * 100 + "]"))["statusCode"] == 413
    handler.close()


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_without_the_option_requests_are_refused_with_what_to_do(door: Callable[..., dict[str, Any]]) -> None:
    app = hf.App("shop", home="memory://")
    handler = app.lambda_handler()
    with pytest.raises(hf.ConfigurationError, match="lambda_handler\\(http="):
        handler(door())
    handler.close()


def test_with_http_the_other_events_are_what_they_were() -> None:
    app = hf.App("shop", home="memory://")
    Shop()(app)
    handler = app.lambda_handler(http=TOKENS)
    started = handler({"holdfast": "start", "workflow": "checkout", "id": "a", "input": ["a"]})
    assert started["result"] == "charged a"
    with pytest.raises(hf.InvalidInput, match="detail"):
        handler({"detail": {}})
    handler.close()
