"""What ``import NAME`` costs in a bare interpreter, and then a name in it; ours or a peer's. One line of JSON."""

import os
import sys
import time

began = time.perf_counter()
__import__(sys.argv[1])
values = {"import_ms": (time.perf_counter() - began) * 1e3, "import_modules": len(sys.modules)}
getattr(sys.modules[sys.argv[1]], sys.argv[2])
values["use_ms"] = (time.perf_counter() - began) * 1e3
try:
    with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123  pathlib would be measured too
        values["import_rss_mb"] = int(pages.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
except OSError:
    import resource

    values["import_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3

import json  # noqa: E402  after everything is measured

print(json.dumps({"values": values, "notes": {}}))
