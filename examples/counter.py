"""A counter that several processes share, and that loses nothing.

Shows the smallest actor: state that outlives its process; one call at a time, whoever calls; a read that costs no
write; a method that fails, and so has changed nothing; a request id, under which a repeated click counts once.

    python examples/counter.py
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

import holdfast as hf

app = hf.App("counter")


class Counter(hf.Actor, app=app):
    """One number per key. Several processes may add to it at once."""

    count: int = 0

    async def add(self, n: int = 1) -> int:
        """Add, and answer the new value."""
        self.count += n
        return self.count

    async def take(self, n: int) -> int:
        """Take away, and answer what is left. Raises ``ValueError`` if there are not so many."""
        self.count -= n
        if self.count < 0:
            raise ValueError(f"{n} is more than there are")  # rolls the line above back
        return self.count

    @hf.read
    async def value(self) -> int:
        """What it stands at."""
        return self.count


# ── See it work ─────────────────────────────────────────────────────────────────────────────────────────────────────

PROCESSES = 3
CLICKS = 100


async def click() -> None:
    """What each of the processes does."""
    await asyncio.gather(*(Counter.at("clicks").add() for _ in range(CLICKS)))


async def count_together() -> None:
    async with app.worker():
        environment = {**os.environ, "HOLDFAST_URL": app.home_url}
        command = (sys.executable, __file__, "click")
        children = [await asyncio.create_subprocess_exec(*command, env=environment) for _ in range(PROCESSES)]
        await click()
        assert [await child.wait() for child in children] == [0] * PROCESSES

        total = await Counter.at("clicks").value()
        print(f"{PROCESSES + 1} processes clicked {CLICKS} times each: {total}")
        assert total == (PROCESSES + 1) * CLICKS, "a click was lost, or counted twice"

        impatient = [await Counter.at("clicks", request_id="click-17").add() for _ in range(3)]
        print(f"one click, sent three times under one id, answers {impatient}")
        assert impatient == [total + 1] * 3

        try:
            await Counter.at("clicks").take(1_000)
        except ValueError as error:
            print(f"taking 1000 fails ({error}) and changes nothing")
        assert await Counter.at("clicks").value() == total + 1


async def look_again() -> None:
    async with app.worker():  # opened anew, as after a restart
        value = await Counter.at("clicks").value()
        print(f"after a restart: {value}")
        assert value == (PROCESSES + 1) * CLICKS + 1


def main() -> None:
    if sys.argv[1:] == ["click"]:
        app.run(click())
        return
    with tempfile.TemporaryDirectory() as folder:
        app.home_url = f"sqlite:///{folder}/counter.db"
        asyncio.run(count_together())
        asyncio.run(look_again())


if __name__ == "__main__":
    main()
