"""Callbacks by URL: the token is all it takes, and a wrong one tells nothing."""

from __future__ import annotations

import base64
import json

import pytest
from tests.http.conftest import read

from holdfast import ids


@pytest.fixture
def nobody(shop):
    """An API that knows no caller."""
    return shop.working(authenticate=lambda _request: None)


async def begun(shop, eventually, id="a", **options):
    await shop.app.registry.workflow("parcel").start(id=id, **options)
    await eventually(lambda: shop.tokens)
    return shop.tokens.pop()


async def test_whoever_has_the_token_completes(shop, nobody, eventually):
    async with nobody as api:
        token = await begun(shop, eventually)
        assert await api.post(f"/v1/callbacks/{token}", "3SABC") == (204, None)
        assert await shop.app.handle("parcel", "a") == "3SABC"


async def test_or_fails(shop, nobody, eventually):
    async with nobody as api:
        token = await begun(shop, eventually)
        assert await api.post(f"/v1/callbacks/{token}/fail", {"message": "lost", "type": "ParcelLost"}) == (204, None)
        assert await shop.app.handle("parcel", "a") == "failed: ParcelLost: lost"


async def test_or_says_that_it_goes_on(shop, nobody, eventually):
    async with nobody as api:
        token = await begun(shop, eventually, heartbeat="1h")
        assert await api.post(f"/v1/callbacks/{token}/heartbeat") == (204, None)
        assert await api.post(f"/v1/callbacks/{token}", "here") == (204, None)


def encoded(scope):
    return base64.urlsafe_b64encode(json.dumps(scope).encode()).decode().rstrip("=")


async def test_every_wrong_token_is_answered_alike(shop, nobody, eventually):
    async with nobody as api:
        token = await begun(shop, eventually)
        used = await begun(shop, eventually, id="b")
        await api.post(f"/v1/callbacks/{used}", "x")
        await shop.app.handle("parcel", "b")
        version, scope, signature = token.split(".")
        strange = (["wf#parcel#none", 0, "x"], ["", 0, ""], ["\0", 0, "x"], ["actor#Cart#u1", 0, "x"], [1], "x", None)
        wrong = [
            used,
            token[:-1],
            token[:-1] + ("0" if token[-1] != "0" else "1"),
            f"{version}.{encoded(strange[0])}.{signature}",
            f"{version}.{used.split('.')[1]}.{signature}",
            f"hf2.{scope}.{signature}",
            "hf1",
            "%00",
            "x" * 3000,
            *(f"{version}.{encoded(each)}.{'0' * 64}" for each in strange),
        ]
        answers = set()
        for each in wrong:
            for action in ("", "/heartbeat"):
                response = await api.send("POST", f"/v1/callbacks/{each}{action}")
                answers.add((response.status, response.headers, response.body))
            response = await api.send("POST", f"/v1/callbacks/{each}/fail", b'{"message": "m"}')
            answers.add((response.status, response.headers, response.body))
        ((status, _, body),) = answers
        assert (status, json.loads(body)["code"]) == (404, "invalid_token")
        assert await api.post(f"/v1/callbacks/{token}", "x") == (204, None)


async def test_a_wrong_body_is_told_to_whoever_has_the_token(shop, nobody, eventually):
    async with nobody as api:
        token = await begun(shop, eventually)
        bodies = [("", b"{"), ("", b"[" * 100 + b"]" * 100), ("/fail", b"{}"), ("/fail", b'{"message": 1}')]
        for action, body in bodies:
            right = await api.send("POST", f"/v1/callbacks/{token}{action}", body)
            _, wrong = read(await api.send("POST", f"/v1/callbacks/hf1.x.y{action}", body))
            assert wrong["code"] == "invalid_token"
            assert right.status == 400
        assert await api.post(f"/v1/callbacks/{token}", "x") == (204, None)


async def test_a_token_is_compared_in_constant_time(shop, nobody, eventually, monkeypatch):
    compared = []
    real = ids.hmac.compare_digest

    class Watched:
        """``hmac`` as the module of ids sees it."""

        new = ids.hmac.new

        @staticmethod
        def compare_digest(one, other):
            compared.append((one, other))
            return real(one, other)

    async with nobody as api:
        token = await begun(shop, eventually)
        monkeypatch.setattr(ids, "hmac", Watched)
        wrong = token[:-64] + "0" * 64
        assert (await api.post(f"/v1/callbacks/{wrong}", "x"))[0] == 404
        assert [other for _, other in compared] == [b"0" * 64]


async def test_no_event_and_no_log_has_the_token(shop, nobody, eventually, caplog):
    told = []
    shop.app.telemetry.subscribe(lambda event, fields: told.append(f"{event} {fields}"))
    async with nobody as api:
        token = await begun(shop, eventually)
        await api.post(f"/v1/callbacks/{token}/heartbeat")
        await api.post(f"/v1/callbacks/{token}", "canary")
        await shop.app.handle("parcel", "a")
    assert any("http_answered" in each and "POST /v1/callbacks/{token}'" in each for each in told)
    assert not [each for each in (*told, caplog.text) if token in each or "canary" in each]
