"""Requests over HTTP on Lambda: what they begin is settled before the environment may be frozen."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import holdfast as hf
from holdfast.http.api import Options
from holdfast.http.lambda_events import shape_of, to_request, to_response
from holdfast.http.respond import respond
from holdfast.runtime.lambda_ import LambdaHandler
from holdfast.testing import VirtualClock, run_virtual


def request(path: str, body: Any = None) -> dict[str, Any]:
    """What a function URL hands on."""
    http = {"method": "GET" if body is None else "POST"}
    context = {"http": http, "authorizer": {"iam": {"userArn": "arn:aws:iam::111122223333:user/till"}}}
    event = {"version": "2.0", "rawPath": path, "requestContext": context}
    return event if body is None else event | {"body": json.dumps(body)}


class Context:
    aws_request_id = "request"

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._until - self._loop.time()) * 1000)


def handler_of(app: hf.App) -> LambdaHandler:
    async def serve(event: Any, shape: Any) -> Any:
        heard = to_request(event, trust_iam=True)
        assert heard is not None
        return to_response(await respond(app, heard, Options()), shape)

    def front(event: Any) -> Any:
        shape = shape_of(event)
        return None if shape is None else serve(event, shape)

    return app.lambda_handler(front)


def held(handler: LambdaHandler) -> list[str]:
    assert handler._crew is not None
    return [each.partition for each in handler._crew.host.entities.values() if each.held]


def shop(step_seconds: float) -> hf.App:
    app = hf.App("shop", home="memory://", clock=VirtualClock())

    @app.step
    async def charge(order: str) -> str:
        await asyncio.sleep(step_seconds)
        return f"charged {order}"

    @app.workflow
    async def checkout(order: str) -> str:
        paid = await charge(order)
        await hf.sleep("1h")
        return paid

    return app


def test_what_a_request_has_started_is_settled_when_it_is_answered():
    async def main() -> None:
        handler = handler_of(shop(step_seconds=2))
        answer = await handler.invoke(request("/v1/workflows/checkout/o-1", ["o-1"]), Context(60))
        assert answer["statusCode"] == 202
        assert not held(handler), "the environment would be frozen in the midst of a step, with a lease"
        told = await handler.invoke(request("/v1/workflows/checkout/o-1"), Context(60))
        assert json.loads(told["body"])["status"] == "SUSPENDED"
        await handler.aclose()

    run_virtual(main)


def test_a_request_is_answered_though_what_it_has_started_takes_longer_than_the_invocation():
    async def main() -> None:
        handler = handler_of(shop(step_seconds=500))
        answer = await handler.invoke(request("/v1/workflows/checkout/o-1", ["o-1"]), Context(10))
        assert answer["statusCode"] == 202
        assert not held(handler)
        await handler.aclose()

    run_virtual(main)
