"""What the metrics of a process tell of its queues."""

from __future__ import annotations

import asyncio

import pytest
from tests.runtime.test_prometheus import value

import holdfast as hf
from holdfast.testing import VirtualClock, run_virtual


def test_the_process_that_decides_tells_how_its_queues_stand(memory_world) -> None:
    app = memory_world.app("shop", clock=VirtualClock())
    mail = app.queue("mail", limit=2, most_waiting=3)

    @app.workflow(queue=mail)
    async def letter(number: int) -> int:
        await hf.sleep("1h")
        return number

    async def main() -> None:
        async with app.worker():
            app.prometheus()
            for number in range(5):
                await letter.start(number, id=str(number), queued=hf.Queued(ahead="5d"))
                await asyncio.sleep(1)
            with pytest.raises(hf.QueueFull):
                await letter.start(5, id="5")
            await asyncio.sleep(10)
            assert value(app, "holdfast_queue_waiting", queue="mail") == 3
            assert value(app, "holdfast_queue_held", queue="mail") == 2
            assert 12 <= value(app, "holdfast_queue_oldest_seconds", queue="mail") <= 14
            assert value(app, "holdfast_queue_admitted_total", queue="mail") == 2
            assert value(app, "holdfast_queue_refused_total", queue="mail") == 1

    run_virtual(main)
