"""A secret goes everywhere as itself, and shows nowhere."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from dataclasses import dataclass
from typing import Any

import pytest
from tests.http.conftest import Api

import holdfast as hf
from holdfast.codec.typed import codec_for
from holdfast.failure import describe
from holdfast.secret import redacted, redacted_json

CANARY = "hunter2-canary"


@dataclass
class Login:
    user: str
    password: hf.Secret


SECRET = hf.Secret(CANARY)


@pytest.mark.parametrize(
    "shown",
    [
        repr(SECRET),
        str(SECRET),
        f"{SECRET}",
        f"{SECRET!r:>40}",
        f"{SECRET:x}",
        repr([SECRET, {SECRET: 1}]),
        repr(Login("ann", SECRET)),
        repr(ValueError(SECRET)),
        str(list(SECRET.__rich_repr__())),
    ],
)
def test_a_secret_prints_as_stars(shown):
    assert "***" in shown
    assert CANARY not in shown


def test_it_is_compared_and_copied_as_a_value():
    assert hf.Secret("a") == hf.Secret("a") != hf.Secret("b")
    assert hf.Secret("a") != "a"
    assert {hf.Secret("a"), hf.Secret("a")} == {hf.Secret("a")}
    assert copy.deepcopy(SECRET) == pickle.loads(pickle.dumps(SECRET)) == SECRET  # noqa: S301 - it was made here
    assert SECRET.reveal() == CANARY


@pytest.mark.parametrize("given", [None, 7, b"key", ["a"]])
def test_what_is_no_text_is_refused(given):
    with pytest.raises(TypeError, match="must be text"):
        hf.Secret(given)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (hf.Secret, SECRET),
        (hf.Secret | None, SECRET),
        (list[hf.Secret], [SECRET]),
        (dict[str, hf.Secret], {"a": SECRET}),
        (Login, Login("ann", SECRET)),
    ],
)
def test_it_travels_as_itself_in_typed_payloads(hint, value):
    data, back = codec_for(hint).copy(value, "the value", 1_000)
    assert back == value
    assert codec_for(hint).decode(data, "the value") == value
    assert CANARY not in json.dumps(redacted(json.loads(data)))
    assert CANARY.encode() not in redacted_json(data)


def test_an_error_that_quotes_it_is_recorded_without_it():
    def fails(password: hf.Secret) -> None:
        error = ValueError(f"bad password {password}", password)
        error.given = password  # type: ignore[attr-defined]
        raise error

    with pytest.raises(ValueError, match="bad password") as raised:
        fails(SECRET)
    assert CANARY not in repr(describe(raised.value))


def test_a_misfit_that_holds_one_does_not_quote_it():
    with pytest.raises(hf.SerializationError) as raised:
        codec_for(dict[str, int]).copy({"a": SECRET}, "the value", 1_000)
    assert CANARY not in str(raised.value)


def clinic(world: Any, seen: list[str]) -> hf.App:
    app = world.app()

    @app.step(retry=hf.Retry(max_attempts=1))
    async def connect(login: Login) -> Login:
        seen.append(login.password.reveal())
        logging.getLogger("clinic").warning("connecting with %s", login)
        if login.user == "bad":
            raise ConnectionError(f"refused {login}", login.password)
        return login

    @app.workflow
    async def visit(password: hf.Secret, user: str = "ann") -> Login:
        @hf.query
        def password_() -> hf.Secret:
            return password

        made = await connect(Login(user, password))
        if user == "waits":
            await hf.signal("end", hf.Secret)
        return made

    class Vault(hf.Actor, app=app):
        held: hf.Secret = hf.field(default_factory=lambda: hf.Secret(""))

        async def put(self, secret: hf.Secret) -> hf.Secret:
            self.held = secret
            return secret

        @hf.read
        async def get(self) -> hf.Secret:
            return self.held

    return app


async def test_the_code_gets_it_and_logs_history_and_http_do_not_show_it(memory_world, caplog, reaches):
    seen: list[str] = []
    app = clinic(memory_world, seen)
    given = {"$secret": CANARY}
    async with app.worker():
        api = Api(app)
        told = [
            await api.post("/v1/workflows/visit/a?wait=10s", {"password": given}),
            await api.get("/v1/workflows/visit/a"),
            await api.get("/v1/workflows/visit/a/history"),
            await api.get("/v1/workflows"),
            await api.post("/v1/workflows/visit/b?wait=10s", {"password": given, "user": "bad"}),
            await api.get("/v1/workflows/visit/b/history"),
            await api.post("/v1/actors/Vault/k/put", [given]),
            await api.get("/v1/actors/Vault/k/get"),
        ]
        await api.post("/v1/workflows/visit/c", {"password": given, "user": "waits"})
        await reaches(app.handle("visit", "c"), "SUSPENDED")
        told.append(await api.get("/v1/workflows/visit/c/queries/password_"))
        assert told[0][1]["result"] == {"user": "ann", "password": "***"}
        assert told[-1] == (200, {"value": "***"})
        assert (await app.handle("visit", "a").result()) == Login("ann", SECRET)
        with pytest.raises(hf.ExecutionFailed) as raised:
            await app.handle("visit", "b").result()
        history = await app.handle("visit", "b").history()
    assert seen == [CANARY] * 3
    assert "connecting with Login(user='ann', password=***)" in caplog.text
    assert "refused Login(user='bad', password=***)" in str(raised.value)
    for shown in (str(told), caplog.text, str(raised.value), str(history)):
        assert CANARY not in shown


async def test_a_traceback_with_locals_does_not_show_it(memory_world):
    shown: list[str] = []
    app = memory_world.app()

    @app.step(retry=hf.Retry(max_attempts=1))
    async def connect(login: Login) -> None:
        try:
            raise ConnectionError("refused")
        except ConnectionError as error:
            told = traceback.TracebackException.from_exception(error, capture_locals=True)
            shown.extend(told.format())
            raise

    @app.workflow
    async def visit(password: hf.Secret) -> None:
        await connect(Login("ann", password))

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed) as raised:
            await (await visit.start(SECRET, id="a"))
        shown.extend(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "password=***" in "".join(shown)
    assert not [each for each in "".join(shown).splitlines() if CANARY in each]
