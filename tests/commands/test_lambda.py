"""What only HTTP or the command line could do before, done by a function of Lambda."""

from __future__ import annotations

from typing import Self

import pytest

import holdfast as hf


class Context:
    def __init__(self, id: str) -> None:
        self.aws_request_id = id

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Function:
    """``await function("status", workflow=..., id=...)``: one direct invocation."""

    def __init__(self, app: hf.App) -> None:
        self.handler = app.lambda_handler()
        self.count = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.handler.aclose()

    async def __call__(self, order: str, *, request: str = "", **fields):
        self.count += 1
        context = Context(request or f"request-{self.count}")
        return await self.handler.invoke({"holdfast": order, **fields}, context)


async def test_executions_are_listed_with_their_history(http_shop):
    async with Function(http_shop.app) as function:
        for number in range(3):
            await function("start", workflow="checkout", id=f"c-{number}", input=["tok"], tags={"n": str(number)})
        page = await function("list", workflow="checkout", limit=2)
        assert [each["id"] for each in page["executions"]] == ["c-2", "c-1"]
        page = await function("list", workflow="checkout", limit=2, after=page["cursor"])
        assert [each["id"] for each in page["executions"]] == ["c-0"] and page["cursor"] is None
        assert [each["id"] for each in (await function("list", tags={"n": "1"}))["executions"]] == ["c-1"]
        (event,) = (await function("history", workflow="checkout", id="c-1"))["events"]
        assert (event["name"], event["outcome"]) == ("charge#0", "done")
        with pytest.raises(hf.UnknownName):
            await function("list", workflow="none")
        with pytest.raises(hf.NotFound):
            await function("history", workflow="checkout", id="none")


async def test_a_body_is_asked(http_shop):
    async with Function(http_shop.app) as function:
        await function("start", workflow="approval", id="a", input=[7])
        assert await function("query", workflow="approval", id="a", name="asked") == 7
        with pytest.raises(hf.UnknownName):
            await function("query", workflow="approval", id="a", name="none")


async def test_callbacks_are_answered_by_their_tokens(http_shop):
    async with Function(http_shop.app) as function:
        for order, told in (
            ({"holdfast": "callback-complete", "value": "3S"}, {"status": "COMPLETED", "result": "3S"}),
            ({"holdfast": "callback-fail", "message": "lost", "type": "Lost"}, {"result": "failed: Lost: lost"}),
        ):
            http_shop.tokens.clear()
            id = order["holdfast"]
            await function("start", workflow="parcel", id=id)
            (token,) = http_shop.tokens
            assert await function("callback-heartbeat", token=token) is None
            assert await function.handler.invoke({**order, "token": token}, Context("r")) is None
            status = await function("status", workflow="parcel", id=id)
            assert status.items() >= told.items()
            assert token not in str(await function("history", workflow="parcel", id=id))
        with pytest.raises(hf.InvalidToken):
            await function("callback-complete", token="")


async def test_actors_are_looked_at_and_ended(http_shop):
    async with Function(http_shop.app) as function:
        await function("call", actor="Cart", key="u1", method="add", args=["lamp"], request_id="r-1")
        shown = await function("actor-show", actor="Cart", key="u1")
        assert shown["status"]["state"] == {"items": {"lamp": 1}}
        assert shown["waiting"] == shown["parked"] == []
        assert [each["key"] for each in (await function("actor-list", actor="Cart"))["items"]] == ["u1"]
        told = await function("request-status", actor="Cart", key="u1", request_id="r-1")
        assert told == {"id": "r-1", "status": "completed"}
        assert await function("actor-delete", actor="Cart", key="u1") is None
        assert (await function("actor-list", actor="Cart"))["items"] == []
        for order in ("actor-show", "actor-resume", "actor-park", "actor-delete"):
            with pytest.raises(hf.NotFound):
                await function(order, actor="Cart", key="none")
            with pytest.raises(hf.UnknownName):
                await function(order, actor="!shop.bill", key="none")
        with pytest.raises(hf.InvalidInput):
            await function("actor-list", status="GONE")


async def test_parked_messages_are_repaired(memory_world):
    app = memory_world.app()
    broken = {"lamp", "desk", "bed"}

    class Cart(hf.Actor, app=app, retry=hf.Retry(max_attempts=1)):
        items: list[str] = hf.field(default_factory=list)

        async def add(self, sku: str) -> None:
            if sku in broken:
                raise ValueError(sku)
            self.items = [*self.items, sku]

    async with Function(app) as function:
        for sku in sorted(broken):
            await function("send", actor="Cart", key="u1", method="add", args=[sku])
        letters = (await function("dlq-list"))["items"]  # those of one millisecond come in any order
        shown = [(await function("dlq-show", id=each["id"]))["message"]["args"]["sku"] for each in letters]
        assert sorted(shown) == ["bed", "desk", "lamp"]
        bed, desk, lamp = (letters[shown.index(sku)] for sku in ("bed", "desk", "lamp"))
        broken.clear()
        assert (await function("dlq-redrive", id=bed["id"]))["key"] == "u1"
        assert (await function("dlq-discard", id=desk["id"]))["actor"] == "Cart"
        await function("actor-unpark", actor="Cart", key="u1", place=lamp["message"]["place"], args=["chair"])
        assert (await function("dlq-list", actor="Cart"))["items"] == []
        assert (await function("actor-show", actor="Cart", key="u1"))["status"]["state"] == {"items": ["bed", "chair"]}
        for order in ("dlq-show", "dlq-redrive", "dlq-discard"):
            with pytest.raises(hf.NotFound):
                await function(order, id=bed["id"])
        with pytest.raises(hf.NotFound):
            await function("actor-discard", actor="Cart", key="u1", place=lamp["message"]["place"])


async def test_an_event_that_is_published_by_a_repeated_invocation_is_handled_once(http_shop):
    async with Function(http_shop.app) as function:
        for _ in range(2):
            told = await function("publish", event="Placed", value={"order": "o-1"}, request="i-1")
            assert told == {"event": "Placed", "id": "i-1"}
        assert http_shop.handled == ["o-1"]
        with pytest.raises(hf.UnknownName):
            await function("publish", event="None", value={})
        with pytest.raises(hf.InvalidInput):
            await function("publish", event="Placed", value={"order": 1})


async def test_what_is_looked_at_shows_no_secrets(memory_world):
    app = memory_world.app()

    class Vault(hf.Actor, app=app):
        code: hf.Secret = hf.field(default_factory=lambda: hf.Secret("hunter2"))

        async def turn(self) -> None:
            self.code = hf.Secret("hunter2!")

    @app.workflow
    async def guard(key: hf.Secret) -> None:
        @hf.query
        def held() -> hf.Secret:
            return key

        await hf.signal("go", bool)

    async with Function(app) as function:
        await function("call", actor="Vault", key="v", method="turn")
        await function("start", workflow="guard", id="g", input=[{"$secret": "hunter2"}])
        assert (await function("actor-show", actor="Vault", key="v"))["status"]["state"] == {"code": "***"}
        assert await function("query", workflow="guard", id="g", name="held") == "***"
