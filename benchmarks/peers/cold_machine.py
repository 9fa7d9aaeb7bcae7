"""The checkout of the examples as a state machine of ours, from nothing: ``python cold_machine.py FOLDER``.

It runs in our own environment, and imports nothing else of the benchmark. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import holdfast as hf

DEFINITION = Path(__file__).parents[2] / "examples" / "checkout_machine" / "checkout.asl.json"
ORDER = {"id": "o-1", "cents": 1_990, "items": [{"sku": "lamp", "count": 1}]}


async def work(_given: Any) -> str:
    return "done"


async def main(folder: str) -> None:
    app = hf.App("cold", home=f"sqlite:///{folder}/cold.db")
    machine = app.state_machine("checkout", DEFINITION, tasks={"*": work})
    async with app.worker(grace=0):
        assert await machine(ORDER) == {"parcel": "done"}
        values = {"ready_at": time.time(), "cold_cpu_ms": time.process_time() * 1e3, "cold_modules": len(sys.modules)}
        print(json.dumps(values), flush=True)
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
