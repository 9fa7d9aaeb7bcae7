"""The way into what is deployed, as the world has it: requests to the function's URL, messages to its queues, commands.

Everything is sent twice, under one id, and whoever gets no answer sends again. That is what ids are for.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections import Counter
from random import Random
from typing import Any

from examples.on_aws.emulator import Emulator

from holdfast.backends.aws.names import DOORBELL, LIVE, ORDERED, SWEEP_INPUT, base, queue

TRIES = 40
PAUSE_SECONDS = 1.0
AT_ONCE = 3
"""So many requests over HTTP at the same time: the stand-in manages some twenty invocations a second."""
ANSWER_SECONDS = 30.0


class Unanswered(Exception):
    """A request got no answer, however often it was sent."""


class Cloud:
    """``counts`` is what was sent, and what came back."""

    def __init__(self, emulator: Emulator, prefix: str, token: str, random: Random) -> None:
        self.counts: Counter[str] = Counter()
        self.random = random
        self._name = base(prefix)
        self._token = token
        self._sqs, self._lambda = emulator.client("sqs"), emulator.client("lambda")
        self._queues = {
            name: self._sqs.get_queue_url(QueueName=queue(prefix, name))["QueueUrl"] for name in (DOORBELL, ORDERED)
        }
        self._dead = {
            name: self._sqs.get_queue_url(QueueName=queue(prefix, name, dead=True))["QueueUrl"]
            for name in (DOORBELL, ORDERED)
        }
        url = self._lambda.get_function_url_config(FunctionName=self._name, Qualifier=LIVE)["FunctionUrl"]
        # The stand-in serves the URL under its own address: its host name exists on AWS only.
        self._url = f"{emulator.endpoint}/_aws/lambda-url/{url.split('//')[1].split('.')[0]}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._at_once = asyncio.Semaphore(AT_ONCE)

    # ── HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def http(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the answer of a request; with ``body`` it is a POST. What fails is sent again."""
        for _ in range(TRIES):
            self.counts["requests over HTTP"] += 1
            async with self._at_once:
                status, answer = await asyncio.to_thread(self._request, path, body, headers)
            if status < 500 or (status == 500 and "call_failed" in str(answer)):
                return status, answer
            self.counts["requests that got no answer"] += 1
            await asyncio.sleep(PAUSE_SECONDS)
        raise Unanswered(f"{path} got no answer, {TRIES} times")

    async def http_twice(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """The same request twice, at the same time: the answers have to be equal, but for how far it has come."""
        self.counts["requests over HTTP, each twice"] += 1
        one, two = await asyncio.gather(self.http(path, body, **headers), self.http(path, body, **headers))
        if "result" in one[1] and "result" in two[1]:
            assert one == two, f"{path} was answered {one} and {two}"
        return one

    def _request(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        """599 stands for no answer at all."""
        data = None if body is None else json.dumps(body).encode()
        own = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        try:
            url = self._url + path
            request = urllib.request.Request(url, data, own | named)  # noqa: S310 - the emulator's, on loopback
            with self._opener.open(request, timeout=ANSWER_SECONDS) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _parsed(error.read())
        except OSError as error:
            return 599, str(error)

    # ── SQS, Lambda ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def command(self, **command: Any) -> None:
        """A command by the queue of the doorbell: two messages."""
        body = json.dumps(command)
        for delay in (0, self.random.randrange(3)):
            await self._send(DOORBELL, {"MessageBody": body, "DelaySeconds": delay})
        self.counts["commands by SQS, each twice"] += 1

    async def ordered(self, key: str, id: str, **call: Any) -> None:
        """A call of an actor by the FIFO queue: two messages, which the queue does not know to be the same."""
        for number in range(2):
            ids = {"MessageGroupId": key, "MessageDeduplicationId": f"{id}-{number}"}
            await self._send(ORDERED, {"MessageBody": json.dumps({**call, "id": id}), **ids})
        self.counts["ordered messages, each twice"] += 1

    async def ring(self, partition: str) -> None:
        """Ring twice for an entity, though there may be nothing to do."""
        for _ in range(2):
            await self._send(DOORBELL, {"MessageBody": json.dumps({"holdfast": "ring", "partition": partition})})
        self.counts["rings for nothing, each twice"] += 1

    async def sweep(self) -> None:
        """Sweep now. On AWS the rule does it once a minute, as it does here; the demonstration is in a hurry."""
        payload = json.dumps(SWEEP_INPUT).encode()
        await asyncio.to_thread(self._lambda.invoke, FunctionName=f"{self._name}:{LIVE}", Payload=payload)
        self.counts["sweeps"] += 1

    async def _send(self, name: str, message: dict[str, Any]) -> None:
        await asyncio.to_thread(self._sqs.send_message, QueueUrl=self._queues[name], **message)

    async def left(self) -> dict[str, int]:
        """How many messages are in each queue, waiting or being handled; those of dead letters are to be empty.

        WakeListeners for a later time do not count: they are for timers of what has ended long before.
        """
        urls = {**self._queues, **{f"{name}, dead": url for name, url in self._dead.items()}}
        return {name: await asyncio.to_thread(self._count, url) for name, url in urls.items()}

    def _count(self, url: str) -> int:
        found = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return sum(int(found[f"ApproximateNumberOfMessages{which}"]) for which in ("", "NotVisible"))


def hurry(emulator: Emulator, prefix: str, seconds: int) -> None:
    """Let messages that were not done come again so soon."""
    sqs = emulator.client("sqs")
    for name in (DOORBELL, ORDERED):
        url = sqs.get_queue_url(QueueName=queue(prefix, name))["QueueUrl"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(seconds)})


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode(errors="replace")
