"""What the other processes of ``test_processes.py`` do: ``child.py COMMAND PATH [NUMBER]``.

Each says "ready" and waits for a line before it begins, so that several begin together.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from holdfast.backends.sqlite import open_sqlite_home
from holdfast.errors import Refused
from holdfast.items import ABSENT, Item, Put, RevisionIs, Update
from holdfast.ports import Home


async def increment(home: Home, number: int) -> None:
    """Add one to a counter, so many times, while others do the same; note each in an entry of one's own."""
    counter = await home.store.get("counter")
    for turn in range(number):
        while True:
            revision = -1 if counter is None else counter.revision
            try:
                # The first to come makes it.
                if counter is None:
                    await home.store.write(Put(Item("counter"), ABSENT))
                    revision = 0
                answer = await home.store.write(
                    Update(partition="counter", when=RevisionIs(revision), add_revision=1, load=True),
                    Put(Item("counter", f"{home.owner}/{turn:05}"), ABSENT),
                )
                counter = answer[0]
                break
            except Refused as refused:
                counter = refused.item
    say("done")


async def fill(home: Home, _: int) -> None:
    """Write without end, saying what was acknowledged."""
    number = 0
    while True:
        body = bytes(number * 37 % 5000)
        await asyncio.gather(
            *(
                home.store.write(
                    Put(Item(f"p{number + lane}", body=body), ABSENT),
                    Put(Item(f"p{number + lane}", "j/1", body=body), ABSENT),
                )
                for lane in range(8)
            )
        )
        number += 8
        say(number)


async def listen(home: Home, _: int) -> None:
    """Say what the doorbell says, until the input ends."""
    home.doorbell.listen(say)
    say(home.owner)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def nothing(home: Home, _: int) -> None:
    """Only open and close."""
    say(len((await home.store.scan("")).items))


COMMANDS: dict[str, Callable[[Home, int], Awaitable[None]]] = {
    each.__name__: each for each in (increment, fill, listen, nothing)
}


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main(command: str, path: str, number: str) -> None:
    say("ready")
    sys.stdin.readline()
    home = await open_sqlite_home(path)
    await COMMANDS[command](home, int(number))
    await home.doorbell.close()
    await home.store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
