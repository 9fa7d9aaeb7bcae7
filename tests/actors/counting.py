"""A process that increments one counter: some callers, each some times. Prints the replies and leaves when done."""

from __future__ import annotations

import asyncio
import json
import sys

import holdfast as hf


def make(path: str) -> tuple[hf.App, type]:
    app = hf.App("counting", home=f"sqlite:///{path}")

    class Counter(hf.Actor, app=app):
        n: int = 0

        async def increment(self) -> int:
            n = self.n
            await asyncio.sleep(0)  # a gap for anybody who could come between
            self.n = n + 1
            return self.n

        @hf.read
        async def get(self) -> int:
            return self.n

    return app, Counter


async def main(path: str, callers: int, times: int) -> None:
    app, counter = make(path)
    replies: list[int] = []

    async def call() -> None:
        for _ in range(times):
            replies.append(await counter.at("one").increment())  # type: ignore[attr-defined]

    async with app.worker():
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        await asyncio.gather(*(call() for _ in range(callers)))
    sys.stdout.write(json.dumps(replies) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
