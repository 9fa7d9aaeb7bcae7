"""Lambda with published versions, in virtual time: an alias that moves, old versions that stay, calls by name."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace
from tests.backends.aws.cloud import Cloud, Refusal

import holdfast as hf
from holdfast.backends.aws.versions import LambdaVersions
from holdfast.errors import StoreUnavailable
from holdfast.items import HEAD, Item, Update, Write
from holdfast.ports import Home
from holdfast.runtime.lambda_ import LambdaHandler

FUNCTION = "shop-holdfast"
TRIES_AGAIN = 2
"""So often Lambda calls again asynchronously what failed."""

Build = Callable[[hf.App], None]


class Blurred:
    """A store that shows no head to the next ``blind`` looks, and does not answer the next ``lost`` releases."""

    def __init__(self, store: Any, cloud: Releases) -> None:
        self._store = store
        self._cloud = cloud

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        if self._cloud.blind and sort == HEAD:
            self._cloud.blind -= 1
            return None
        found: Item | None = await self._store.get(partition, sort)
        return found

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        answer: Sequence[Item | None] = await self._store.write(*writes)
        if self._cloud.lost and any(isinstance(each, Update) and each.owner is None for each in writes):
            self._cloud.lost -= 1
            raise StoreUnavailable("the answer is lost")
        return answer


class Releases(Cloud):
    """``deploy(build)`` publishes a version and points the alias at it. What calls nobody by name reaches the alias.

    ``faults`` is what happens to the next calls by name, in turn: a code that AWS refuses with, ``lost`` (made, and not
    answered), ``silent`` (neither), ``doubled``, ``fails`` (the version cannot be started once), ``dies`` (whoever
    calls is gone before it), ``dies late`` (after it), ``hangs`` (until ``wake``); ``None``: nothing.
    """

    def __init__(self, open_store: Callable[[str], Awaitable[Home]]) -> None:
        super().__init__(open_store, self._register)
        self.code: dict[str, Build] = {}
        self.live = ""
        self.faults: list[str | None] = []
        self.met: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.called: Counter[str] = Counter()
        self.events: list[tuple[str, str, dict[str, object]]] = []
        self.stores: list[Any] = []
        self.wake = asyncio.Event()
        self.blind = self.lost = 0
        self._making = ""
        self._kept: dict[str, list[LambdaHandler]] = {}

    def _register(self, app: hf.App) -> None:
        self.code[self._making](app)

    def deploy(self, build: Build) -> str:
        number = f"{FUNCTION}:{len(self.code) + 1}"
        self.code[number] = build
        self._point_at(number)
        return number

    def _point_at(self, version: str) -> None:
        self._kept.setdefault(self.live, []).extend(self._idle)
        self._idle[:] = self._kept.pop(version, [])
        self.live = version

    def delete(self, version: str) -> None:
        del self.code[version]
        self._kept.pop(version, None)

    def app(self, version: str | None = None) -> hf.App:
        """Of the version that is live, unless another one is named; ``""`` for code that was not published."""
        own = self.live if version is None else version
        self._making = own or self.live
        app = super().app()
        open_plain = app._home
        assert callable(open_plain)

        async def open_home() -> Home:
            home = await open_plain()
            self.stores.append(home.store)
            return replace(home, store=Blurred(home.store, self), versions=LambdaVersions(self, own))

        app.home_url = open_home
        app.telemetry.subscribe(lambda event, fields: self.events.append((own, event, fields)))
        return app

    def told_of(self, event: str) -> list[tuple[str, str]]:
        """Which versions told of an event, and with what reason or version."""
        return [
            (who, str(fields.get("reason") or fields.get("version") or ""))
            for who, name, fields in self.events
            if name == event
        ]

    # ── What Lambda does ────────────────────────────────────────────────────────────────────────────────────────────

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        assert (operation, parameters["InvocationType"]) == ("Invoke", "Event")
        version, event = parameters["FunctionName"], json.loads(parameters["Payload"])
        self.asked[version] += 1
        await asyncio.sleep(0.01)
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            self.met[fault] += 1
        match fault:
            case "hangs":
                await self.wake.wait()
            case "dies":
                await asyncio.Event().wait()
            case "silent":
                raise TimeoutError("no answer")
            case "TooManyRequestsException" | "AccessDeniedException" | "ServiceException":
                raise Refusal(fault, 500 if fault.startswith("Service") else 429 if fault.startswith("Too") else 403)
            case _:
                pass
        if version not in self.code:
            raise Refusal("ResourceNotFoundException", 404)
        for _ in range(2 if fault == "doubled" else 1):
            self._spawn(self._call(version, event, failing=fault == "fails"))
        if fault == "dies late":
            await asyncio.Event().wait()
        if fault == "lost":
            raise TimeoutError("no answer")
        return {"StatusCode": 202}

    def close(self) -> None:
        pass

    async def _call(self, version: str, event: Any, *, failing: bool = False) -> None:
        await asyncio.sleep(0.05)
        for attempt in range(1 + TRIES_AGAIN):
            if failing and not attempt:
                await asyncio.sleep(60)
                continue
            try:
                await self.call(version, event)
            except Exception:
                await asyncio.sleep(60)
            else:
                return

    async def call(self, version: str, event: Any) -> Any:
        """An invocation of a version by its name."""
        if version == self.live:
            return await self.invoke(event)
        if version not in self.code:
            return None  # it was deleted after the call was queued
        self.called[version] += 1
        kept = self._kept.setdefault(version, [])
        handler = kept.pop() if kept else self.environment_of(version)
        answer = await self.invoke(event, handler)
        if version == self.live:
            self._idle.append(handler)
        else:
            self._kept.setdefault(version, []).append(handler)
        return answer

    def environment_of(self, version: str) -> LambdaHandler:
        handler = self.app(version).lambda_handler()
        self.environments.append(handler)
        return handler
