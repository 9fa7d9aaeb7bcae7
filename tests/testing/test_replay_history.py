"""Recorded histories, replayed on the same code, on code that continues them, and on code that does not."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import holdfast as hf
from holdfast.testing import PATIENT, VirtualClock, record_history, replay_history, run_virtual


def build(way: str = "as recorded", *, cents: int = 100, version: str = "1") -> hf.App:
    app = hf.App("golden", home="memory://", clock=VirtualClock(), limits=PATIENT)

    @app.step
    async def charge(amount: int) -> str:
        return f"paid {amount}"

    @app.step
    async def note(text: str) -> None: ...

    @app.step
    async def rate(text: str) -> int:
        return len(text)

    @app.step
    async def log() -> None: ...

    @app.workflow(version="1")
    async def pack() -> None: ...

    async def old() -> str:
        paid = await charge(cents)
        await hf.sleep("365d")
        await note(paid)
        await pack()
        return paid

    async def also() -> str:
        paid = await old()
        await rate(paid)
        return paid

    async def between() -> str:
        paid = await charge(cents)
        await hf.sleep("365d")
        await log()
        await hf.sleep("1d")
        await note(paid)
        await pack()
        return paid

    async def asking() -> str:
        paid = await charge(cents)
        await hf.sleep("365d")
        if await rate(paid) > 3:
            await note(paid)
        await pack()
        return paid

    async def without_the_last() -> str:
        paid = await charge(cents)
        await hf.sleep("365d")
        await note(paid)
        return paid

    async def without_the_last_after_more() -> str:
        paid = await charge(cents)
        await hf.sleep("365d")
        await log()
        await hf.sleep("1d")
        await note(paid)
        return paid

    async def waits_for_ever() -> str:
        await charge(cents)
        await hf.sleep("365d")
        while True:
            await hf.sleep("1d")
            await log()

    ways = {"as recorded": old, "also": also, "between": between, "asking": asking, "less": without_the_last}
    ways |= {"more and less": without_the_last_after_more, "for ever": waits_for_ever}
    app.workflow(ways[way], name="order", version=version)  # type: ignore[call-overload]
    return app


def recorded_once() -> bytes:
    async def record() -> bytes:
        app = build()
        async with app.worker():
            handle = await app.registry.workflow("order").start(id="one")
            assert await handle == "paid 100"
            return await record_history(app, handle)

    return run_virtual(record)


def test_code_that_continues_a_history_replays_it() -> None:
    history = recorded_once()
    replay_history(build(), history)
    replay_history(build("also", version="2"), history)


def test_code_that_asks_for_something_else_is_told_so() -> None:
    with pytest.raises(hf.NondeterminismError, match="charge#0"):
        replay_history(build(cents=200), recorded_once())


def test_what_has_one_answer_only_may_come_in_between() -> None:
    replay_history(build("between", version="2"), recorded_once())


@pytest.mark.parametrize("way", ["less", "more and less", "for ever"])
def test_what_is_recorded_and_not_asked_for_any_more_is_named(way: str) -> None:
    with pytest.raises(hf.NondeterminismError, match="earlier code finished or began .*pack#0"):
        replay_history(build(way, version="2"), recorded_once())


def test_the_last_operation_is_missed_under_the_same_version_too() -> None:
    with pytest.raises(hf.NondeterminismError, match="pack#0"):
        replay_history(build("less"), recorded_once())


def test_a_replay_that_needs_an_answer_says_so_and_goes_on_with_it() -> None:
    history = recorded_once()
    with pytest.raises(hf.NondeterminismError, match=r'note#0, pack#0.* waits for rate#0.*answers=\{"rate": \.\.\.\}'):
        replay_history(build("asking", version="2"), history)
    replay_history(build("asking", version="2"), history, answers={"rate": 7})
    with pytest.raises(hf.NondeterminismError, match="note#0"):
        replay_history(build("asking", version="2"), history, answers={"rate": 2})
    with pytest.raises(hf.InvalidInput, match="the answer of 'rate'"):
        replay_history(build("asking", version="2"), history, answers={"rate": "seven"})


# ── Other hash seeds ────────────────────────────────────────────────────────────────────────────────────────────────

SHOP = """
import holdfast as hf

app = hf.App("shop", home="memory://")
print("imported")


@app.step
async def count(item: str) -> int:
    return len(item)


@app.workflow
async def inventory() -> int:
    total = 0
    for item in {ORDER}({{"lamp", "chair", "table", "bed", "sofa", "desk", "shelf", "stool", "rug", "bench"}}):
        total += await count(item)
    return total
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Write the module of a shop whose inventory goes through a set in some order; answers its name and history."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(order: str) -> tuple[str, bytes]:
        name = f"shop_that_counts_{order}"
        (tmp_path / f"{name}.py").write_text(SHOP.format(ORDER=order))

        async def record() -> bytes:
            app = import_module(name).app
            app.clock = VirtualClock()
            async with app.worker():
                handle = await app.registry.workflow("inventory").start(id="one")
                assert await handle == 43
                return await record_history(app, handle)

        return name, run_virtual(record)

    yield write
    for name in [name for name in sys.modules if name.startswith("shop_that_counts_")]:
        del sys.modules[name]


@pytest.mark.parametrize("given", ["by name", "itself"])
def test_the_order_of_a_set_is_found_under_another_hash_seed(shop, given) -> None:
    name, history = shop("list")
    with pytest.raises(hf.NondeterminismError, match=r"under PYTHONHASHSEED=[123]: .*count#"):
        replay_history(f"{name}:app" if given == "by name" else import_module(name).app, history)


def test_a_body_with_an_order_of_its_own_is_replayed_under_two_other_hash_seeds(shop, monkeypatch, capsys) -> None:
    name, history = shop("sorted")
    report = replay_history(f"{name}:app", history)
    assert len(report.hash_seeds) == 3
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    report = replay_history(import_module(name).app, history)
    assert report.hash_seeds == ("2 (of this process)", "1", "3")
    assert f"{report.entries} recorded entries, continued under the hash seeds 2 (of this process), 1, 3" in (
        capsys.readouterr().out
    )


def test_an_app_without_a_name_is_replayed_here_only_and_says_so() -> None:
    report = replay_history(build(), recorded_once())
    assert len(report.hash_seeds) == 1
    assert "no other: the app cannot be imported by name" in str(report)


def test_an_app_that_is_another_one_elsewhere_is_told_so(shop, tmp_path) -> None:
    name, history = shop("sorted")
    app = import_module(name).app
    (tmp_path / f"{name}.py").write_text("import holdfast as hf\n\napp = hf.App('empty')\n")
    with pytest.raises(hf.ConfigurationError, match="another app in another process, .*no workflow is called"):
        replay_history(app, history)
    (tmp_path / f"{name}.py").write_text("raise SystemExit('not today')\n")
    with pytest.raises(hf.ConfigurationError, match="could not be replayed in another process, .*not today"):
        replay_history(app, history)
    assert replay_history(app, history, hash_seeds=0).hash_seeds


def test_a_name_that_names_no_app_is_told_so() -> None:
    with pytest.raises(hf.ConfigurationError, match="no_such_shop:app"):
        replay_history("no_such_shop:app", b"")
