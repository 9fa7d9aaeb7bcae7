"""A small shop in a folder of its own, the command line as a function, and a worker that gets on with things."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

import holdfast as hf
from holdfast.cli import main
from holdfast.runtime.sync import SyncBridge

SHOP = '''
    """The code that the commands of these tests are about. Files in the folder make it fail, or hold it up."""

    import asyncio
    import os
    from dataclasses import dataclass
    from pathlib import Path

    import holdfast as hf

    app = hf.App("shop", home="sqlite:///shop.db")


    class OutOfPaper(hf.Terminal):
        pass


    @app.step(raises=(OutOfPaper,))
    def charge(card: str, cents: int) -> str:
        if Path("broken").exists():
            raise OutOfPaper("the terminal is out of paper")
        return f"pay-{card}-{cents}"


    @app.step(retry=hf.Retry(initial="1ms"))
    async def flaky() -> int:
        attempt = hf.current().attempt
        if attempt < 3:
            raise ConnectionError("try again")
        return attempt


    @app.step
    def tell(token: str) -> None:
        Path("token").write_text(token)


    @app.step
    async def hold() -> str:
        with open("news", "w") as news:
            news.write(f"{os.getpid()}\\n")
        while not Path("go").exists():
            await asyncio.sleep(0.01)
        return "held"


    @app.workflow
    async def checkout(card: str, cents: int = 100) -> dict[str, str]:
        return {"payment": await charge(card, cents)}


    @app.workflow
    async def stubborn() -> int:
        return await flaky()


    @app.workflow
    async def approval(amount: int) -> str:
        @hf.query
        def asked() -> dict[str, int]:
            return {"amount": amount}

        return f"{await hf.signal('decision', str)}: {amount}"


    @app.workflow(versions="pinned", version="2")
    async def tour() -> str:
        return f"{await hf.signal('decision', str)} by 2"


    @app.workflow
    async def parcel() -> str:
        callback = hf.callback(str)
        await tell(callback.token)
        return await callback


    @app.workflow
    async def holding() -> str:
        return await hold()


    @dataclass
    class Line:
        sku: str
        n: int


    twice = hf.Retry(max_attempts=2, initial="1ms")


    class Cart(hf.Actor, app=app, retry=twice):
        items: dict[str, int] = hf.field(default_factory=dict)

        async def add(self, sku: str, n: int = 1) -> Line:
            if sku.startswith("bad"):
                raise ValueError(f"{sku} is broken")
            self.items[sku] = self.items.get(sku, 0) + n
            return Line(sku, self.items[sku])

        async def remind(self, minutes: int) -> None:
            self.abandon.after(f"{minutes}m")

        @hf.timer
        async def abandon(self) -> None:
            self.items.clear()

        @hf.read
        async def total(self) -> int:
            return sum(self.items.values())


    class Till(hf.Actor, app=app, retry=twice, poison="halt"):
        cents: int = 0

        async def pay(self, cents: int) -> int:
            if cents < 1:
                raise ValueError("nothing to pay")
            self.cents += cents
            return self.cents


    @dataclass
    class Placed:
        order: str


    @app.consumer(Placed, retry=twice)
    async def bill(event: Placed) -> None:
        if event.order.startswith("bad"):
            raise ValueError(f"{event.order} is broken")
        Path("billed").write_text(event.order)
'''


class Shop:
    """The folder of the shop, and the command line in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = "sqlite:///shop.db"

    def invoke(self, *arguments: str, stdin: str = "", app: str | None = "shop:app") -> Result:
        """Run one command in this process."""
        environment = {"HOLDFAST_APP": app, "HOLDFAST_URL": None}
        return CliRunner().invoke(main, arguments, input=stdin, env=environment)

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """The answer of a command that succeeds."""
        result = self.invoke(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refusal(self, *arguments: str, stdin: str = "") -> dict[str, Any]:
        """The error of a command that fails with one of our own errors."""
        result = self.invoke(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 1, result.output
        assert result.stdout == ""
        answer: dict[str, Any] = json.loads(result.stderr)
        assert answer.keys() == {"code", "message", "retryable"}
        return answer

    def path(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / "shop.py").write_text(textwrap.dedent(SHOP), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_APP", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield Shop(tmp_path)
    sys.modules.pop("shop", None)


def load_twin(folder: Path, name: str = "shop") -> ModuleType:
    """The shop's module once more, apart from the one the commands import."""
    spec = importlib.util.spec_from_file_location(f"{name}_of_the_worker", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Worker:
    """A worker in a thread of this process; ``run`` awaits things there."""

    def __init__(self, module: ModuleType, run: SyncBridge, folder: Path) -> None:
        self.app: hf.App = module.app
        self.run = run
        self._module = module
        self._token = folder / "token"

    def publish_placed(self, order: str, *, id: str | None = None) -> None:
        """Publish an event of the shop."""
        self.run(self.app.publish(self._module.Placed(order), id=id))

    def start_parcel(self) -> str:
        """Start execution ``a`` of ``parcel``; answers the token of the callback that it waits for."""
        handle = self.run(self.app.registry.workflow("parcel").start(id="a"))
        while not self.run(handle.history()):
            pass
        return self._token.read_text()


@pytest.fixture
def worker(shop: Shop) -> Iterator[Worker]:
    module = load_twin(shop.folder)
    with module.app.sync(worker=True) as run:
        yield Worker(module, run, shop.folder)


@pytest.fixture
def news(shop: Shop) -> Iterator[Iterator[str]]:
    """The pids of the processes that have begun to hold, as they come."""
    os.mkfifo(shop.path("news"))
    with open(os.open(shop.path("news"), os.O_RDWR), encoding="utf-8") as pipe:  # noqa: PTH123 - a descriptor
        yield iter(pipe.readline, "")
