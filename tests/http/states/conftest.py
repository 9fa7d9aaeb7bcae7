"""Step Functions' clients of boto3, without a network: what they send is answered in the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from tests.worlds import *

import holdfast as hf
from holdfast.http.api import Options
from holdfast.http.messages import Loopback
from holdfast.http.respond import respond

ENDPOINT = "http://127.0.0.1:8080"
REGION = "us-east-1"


class Raw:
    """What botocore reads a response from."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_args: Any, **_options: Any) -> Any:
        yield self._body


def client_of(answer: Callable[[hf.Request], hf.Response], **credentials: str) -> Any:
    """A client whose requests are answered by a function, once they are ready to be sent."""
    keys = {"aws_access_key_id": "anybody", "aws_secret_access_key": "nothing"} | credentials
    client = boto3.client(
        "stepfunctions",
        endpoint_url=ENDPOINT,
        region_name=REGION,
        config=Config(inject_host_prefix=False, retries={"total_max_attempts": 1}),
        **keys,
    )

    def send(request: Any, **_: Any) -> AWSResponse:
        parts = urlsplit(request.url)
        headers = tuple((name.lower(), told(value)) for name, value in request.headers.items())
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        asked = hf.Request(
            method=request.method,
            path=parts.path or "/",
            query=parts.query,
            headers=(("host", parts.netloc), *headers),
            body=body,
            source=Loopback(),
        )
        answered = answer(asked)
        return AWSResponse(request.url, answered.status, dict(answered.headers), Raw(answered.body))

    client.meta.events.register("before-send.stepfunctions", send)
    return client


def told(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class Boto:
    """A client of boto3 for code that runs on the event loop: ``await boto.create_state_machine(...)``."""

    def __init__(self, app: hf.App, **options: Any) -> None:
        credentials = options.pop("credentials", {})
        loop, chosen = asyncio.get_running_loop(), Options(**({"asl": True} | options))

        def answer(request: hf.Request) -> hf.Response:
            return asyncio.run_coroutine_threadsafe(respond(app, request, chosen), loop).result()

        self._client = client_of(answer, **credentials)
        self.exceptions, self.events = self._client.exceptions, self._client.meta.events

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(**arguments: Any) -> Any:
            answered = await asyncio.to_thread(method, **arguments)
            answered.pop("ResponseMetadata", None)
            return answered

        return call


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    """The region in the names that are answered. A server of DynamoDB that a session has started sets another one."""
    monkeypatch.setenv("AWS_REGION", REGION)


@pytest.fixture
def serving(app: hf.App) -> Callable[..., Any]:
    """``async with serving() as boto:`` a worker and a client of its API."""

    @asynccontextmanager
    async def serve(**options: Any) -> AsyncIterator[Boto]:
        async with app.worker():
            yield Boto(app, **({"authenticate": lambda _request: "tester"} | options))

    return serve
