"""Says in a few lines what pip-audit found in a lock. Its exit code: 1 for a known flaw, 2 if nothing was looked up.

python -m tools.audited LOCK REPORT LOG
"""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any


class Outcome(IntEnum):
    """How it went, as an exit code."""

    SOUND = 0
    FLAWED = 1
    UNKNOWN = 2


def audited(lock: str, report: str, log: str) -> tuple[Outcome, list[str]]:
    """How it went, and what to print: a line that begins with FLAW for each flaw, and one that begins with NOT AUDITED
    for what was not looked up.
    """
    try:
        packages: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except ValueError:  # it ended before it had anything to report
        last = (log.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return Outcome.UNKNOWN, [f"NOT AUDITED: {lock}: {last[:200]}"]
    skipped = [each for each in packages if "skip_reason" in each]
    if len(skipped) == len(packages):
        return Outcome.UNKNOWN, [f"NOT AUDITED: {lock}: the database cannot be reached from here"]
    lines = [
        f"FLAW {flaw['id']} in {each['name']} {each['version']}, mended in {', '.join(flaw['fix_versions']) or 'none'}"
        for each in packages
        for flaw in each.get("vulns", ())
    ]
    outcome = Outcome.FLAWED if lines else Outcome.SOUND
    lines.insert(0, f"audited {len(packages) - len(skipped)} packages of {lock}: {len(lines)} known flaws")
    if skipped:
        lines.append(f"NOT AUDITED: {', '.join(each['name'] for each in skipped)}: the database does not know them")
    return outcome, lines


if __name__ == "__main__":
    name, *files = sys.argv[1:]
    outcome, lines = audited(name, *(Path(each).read_text(encoding="utf-8") for each in files))
    sys.stdout.write("\n".join(lines) + "\n")
    sys.exit(outcome)
