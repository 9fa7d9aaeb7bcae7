"""State machines, measured beside moto's interpreter of them: ``python -m benchmarks.asl [--json]``.

It is ``python -m benchmarks --only asl-``, and takes the other options of that too.
"""

from __future__ import annotations

import sys

from benchmarks.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["--only", "asl-", *sys.argv[1:]]))
