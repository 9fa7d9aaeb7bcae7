"""What code raises and nobody has declared leaves a server as a type and an id; its words stay inside."""

from __future__ import annotations

import re

import pytest
from tests.http.conftest import Api

import holdfast as hf

CANARY = "postgres://shop:hunter2@db/x /etc/holdfast/keys.pem"


class Declined(Exception):
    pass


def leaking(world) -> hf.App:
    app = world.app()

    @app.step(raises=(Declined,), retry=hf.Retry(max_attempts=1))
    async def fails(how: str) -> None:
        match how:
            case "terminal":
                raise hf.Terminal("no such card")
            case "declared":
                raise Declined("no such card")
            case _:
                raise KeyError(CANARY)

    @app.workflow
    async def broken(how: str = "") -> None:
        await fails(how)

    @app.workflow
    async def parent() -> None:
        await broken()

    @app.workflow
    async def asked() -> None:
        @hf.query
        def secrets() -> str:
            raise KeyError(CANARY)

        @hf.query
        def quoted() -> str:
            raise hf.StepFailed("KeyError", CANARY)

        await hf.signal("end", str)

    class Vault(hf.Actor, app=app):
        async def change(self) -> None:
            raise KeyError(CANARY)

        @hf.read
        async def look(self) -> None:
            raise PermissionError(13, CANARY)

        async def quote(self) -> None:
            raise hf.StepFailed("KeyError", CANARY)

        async def group(self) -> None:
            raise ExceptionGroup(CANARY, [ValueError(CANARY)])

    return app


FAULTS = [
    ("POST", "/v1/actors/Vault/k/change", "KeyError"),
    ("POST", "/v1/actors/Vault/k/look", "PermissionError"),
    ("GET", "/v1/actors/Vault/k/look", "PermissionError"),
    ("POST", "/v1/actors/Vault/k/quote", "KeyError"),
    ("POST", "/v1/actors/Vault/k/group", "ExceptionGroup"),
    ("GET", "/v1/workflows/asked/a/queries/secrets", "KeyError"),
    ("GET", "/v1/workflows/asked/a/queries/quoted", "KeyError"),
]


@pytest.mark.parametrize(("method", "path", "name"), FAULTS)
async def test_a_fault_is_told_by_type_and_id_and_is_found_in_the_log_by_it(
    memory_world, reaches, caplog, errors_expected, method, path, name
):
    app = leaking(memory_world)
    async with app.worker():
        api = Api(app)
        await api.post("/v1/workflows/asked/a", [])
        await reaches(app.handle("asked", "a"), "SUSPENDED")
        status, problem = await (api.post(path, []) if method == "POST" else api.get(path))
    assert (status, problem["error_type"]) == (500, name)
    assert re.fullmatch(r"[0-9a-f]{16}", problem["error_id"])
    assert problem["error_id"] in caplog.text
    assert "hunter2" not in str(problem) and "keys.pem" not in str(problem)
    assert "hunter2" not in caplog.text


ENDS = [("", "KeyError"), ("terminal", "Terminal: no such card"), ("declared", "Declined: no such card")]


@pytest.mark.parametrize(("how", "told"), ENDS)
async def test_an_execution_that_failed_says_more_than_the_type_only_if_that_is_declared(memory_world, how, told):
    app = leaking(memory_world)
    async with app.worker():
        api = Api(app)
        _, started = await api.post("/v1/workflows/broken/b?wait=10s", [how])
        _, looked = await api.get("/v1/workflows/broken/b")
        _, listed = await api.get("/v1/workflows")
        _, history = await api.get("/v1/workflows/broken/b/history")
    assert {started["error"], looked["error"], listed["executions"][0]["error"]} == {told}
    assert "hunter2" not in str([started, looked, listed, history])
    assert [each["error"] for each in history["events"] if "error" in each] == [told.partition(":")[0]]


async def test_what_a_child_failed_with_is_not_quoted_by_its_parent(memory_world):
    app = leaking(memory_world)
    async with app.worker():
        _, answer = await Api(app).post("/v1/workflows/parent/p?wait=10s", [])
    assert answer["status"] == "FAILED"
    assert "hunter2" not in str(answer)
