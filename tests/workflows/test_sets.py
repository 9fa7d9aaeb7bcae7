"""Sets reach a workflow body in an order that no process changes, through every door (G2)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import holdfast as hf

WORDS = ["anna", "bob", "carl", "dora", "emil"]
GIVEN = {*WORDS}


async def test_whatever_a_body_is_given_has_its_sets_in_order(app, eventually):
    seen: dict[str, list[str]] = {}
    tokens: list[str] = []

    def see(door: str, skus: set[str]) -> None:
        assert isinstance(skus, set)
        assert skus == GIVEN
        seen[door] = list(skus)

    @app.step
    async def take(skus: set[str]) -> set[str]:
        assert type(skus) is set, "a step is not replayed: it gets what it was written for"
        return set(skus)

    @app.step
    def take_in_a_thread(skus: set[str]) -> set[str]:
        return set(skus)

    @app.step
    async def hand_out(token: str) -> None:
        tokens.append(token)

    @app.workflow
    async def child(skus: set[str]) -> set[str]:
        return skus

    class Shelf(hf.Actor, app=app):
        async def put(self, skus: set[str]) -> set[str]:
            return skus

    @app.workflow
    async def job(skus: set[str]) -> set[str]:
        see("input", skus)
        see("step", await take(skus))
        see("thread", await take_in_a_thread(skus))
        see("child", await child(skus))
        see("handle", await (await child.start(skus)))
        see("actor", await Shelf.at("one").put(skus))
        see("signal", await hf.signal("skus", set[str]))
        answer = hf.callback(set[str])
        await hand_out(answer.token)
        see("callback", await answer)
        return skus

    async with app.worker():
        handle = await job.start(GIVEN, id="j")
        await handle.signal("skus", GIVEN)
        await eventually(lambda: tokens)
        await app.callback(tokens[0]).complete(GIVEN)
        result = await handle
    assert type(result) is set
    assert seen == dict.fromkeys(("input", "step", "thread", "child", "handle", "actor", "signal", "callback"), WORDS)


SCRIPT = """
import asyncio, sys
import holdfast as hf
file, phase = sys.argv[1:]
app = hf.App("shop", home=f"sqlite:///{file}")
drawn = 0

@app.step
async def draw() -> int:
    global drawn
    drawn += 1
    return drawn

@app.workflow
async def lottery(names: set[str]) -> dict[str, int]:
    got = {name: await draw() for name in names | {"zoe", "yan"}}
    await hf.signal("go")
    return got

async def main():
    async with app.worker():
        handle = await lottery.start(set("anna bob carl dora emil".split()), id="1")
        if phase == "1":
            while (await handle.status()).status != "SUSPENDED":
                await asyncio.sleep(0.01)
        else:
            await handle.signal("go")
            print(await handle)

asyncio.run(main())
"""


def test_another_process_goes_on_although_its_hash_seed_is_another(tmp_path: Path):
    told = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "home.db"), phase],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for phase, seed in (("1", "1"), ("2", "2"))
    ]
    expected = {name: place for place, name in enumerate([*WORDS, "yan", "zoe"], 1)}
    assert told[1].strip() == str(expected)
