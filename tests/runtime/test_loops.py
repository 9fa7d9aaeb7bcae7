"""A worker runs on uvloop where that is installed, unless the environment says otherwise."""

from __future__ import annotations

import asyncio
import sys

import pytest

import holdfast as hf
from holdfast.runtime.loops import LOOP_VARIABLE


async def kind_of_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def of_a_worker() -> str:
    return hf.App("shop", home="memory://").run(kind_of_loop())


def test_a_worker_takes_uvloop_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LOOP_VARIABLE)
    assert of_a_worker() == "uvloop"
    monkeypatch.setenv(LOOP_VARIABLE, "uvloop")
    assert of_a_worker() == "uvloop"


def test_without_it_a_worker_runs_on_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LOOP_VARIABLE)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert of_a_worker() == "asyncio"


def test_the_environment_may_keep_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOP_VARIABLE, "asyncio")
    assert of_a_worker() == "asyncio"


def test_a_loop_that_is_not_there_is_refused_before_the_home_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOP_VARIABLE, "trio")
    with pytest.raises(hf.ConfigurationError, match="asyncio or uvloop, not 'trio'"):
        of_a_worker()
    monkeypatch.setenv(LOOP_VARIABLE, "uvloop")
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(hf.ConfigurationError, match=r"install 'holdfast\[uvloop\]'"):
        of_a_worker()


def test_bodies_steps_and_threads_work_on_uvloop(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv(LOOP_VARIABLE, "uvloop")
    app = hf.App("shop", home=f"sqlite:///{tmp_path}/shop.db")

    @app.step
    def blocking(number: int) -> int:
        return number + 1

    @app.step
    async def waiting(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    @app.workflow
    async def both(number: int) -> int:
        async with asyncio.timeout(60):
            one, two = await asyncio.gather(blocking(number), waiting(number))
        await asyncio.sleep(0.01)
        return one + two

    async def main() -> tuple[str, list[int]]:
        return await kind_of_loop(), await asyncio.gather(*[both(number) for number in range(10)])

    assert app.run(main()) == ("uvloop", [3 * number + 1 for number in range(10)])
