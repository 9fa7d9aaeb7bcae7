"""What a cold start of a Lambda function does: import a handler, then call it. ``python measure_cold.py MODULE``.

The module lies beside this one and has a ``handler``; one that has ``FIRST_EVENT`` too is called with it, once.
Prints one line of JSON: milliseconds from before the import on, modules, memory; and the processor time of the whole
process until then, the interpreter's own start included.
"""

import os
import sys
import time

began = time.perf_counter()
module = __import__(sys.argv[1])
values = {"cold_import_ms": (time.perf_counter() - began) * 1e3, "cold_modules": len(sys.modules)}
values["cold_cpu_ms"] = time.process_time() * 1e3


def rss_mb():
    try:
        with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123  pathlib would be measured too
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


values["cold_rss_mb"] = rss_mb()


class Context:
    aws_request_id = "1"
    function_name = "bench"

    def get_remaining_time_in_millis(self):
        return 30_000


if hasattr(module, "FIRST_EVENT"):
    module.handler(module.FIRST_EVENT, Context())
    values["first_ms"], values["first_cpu_ms"] = (time.perf_counter() - began) * 1e3, time.process_time() * 1e3
    values["first_modules"], values["first_rss_mb"] = len(sys.modules), rss_mb()

import json  # noqa: E402  after everything is measured

print(json.dumps(values), flush=True)
os._exit(0)
