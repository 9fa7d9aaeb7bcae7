"""One measurement of ours in a process of its own: ``python -m benchmarks.run_ours GROUP FUNCTION PARAMS``.

Prints one line of JSON: the values, and the settings in force. A stage of a crash test prints what it likes.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from importlib import import_module


def main() -> None:
    group, function, params = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    measure = getattr(import_module(f"benchmarks.groups.{group}"), function)
    answer = asyncio.run(measure(params)) if inspect.iscoroutinefunction(measure) else measure(params)
    if answer is not None:
        values, notes = answer
        print(json.dumps({"values": values, "notes": notes}), flush=True)
    sys.stdout.flush()
    os._exit(0)  # what a measurement leaves asleep need not be put away


if __name__ == "__main__":
    main()
