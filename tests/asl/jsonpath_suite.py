"""The compliance suite of JSONPath against ours: ``python -m tests.asl.jsonpath_suite CTS.json``.

The file is that of https://github.com/jsonpath-standard/jsonpath-compliance-test-suite. It is not kept here. It is for
RFC 9535, and Step Functions has Jayway's dialect, which is older: a filter stands in parentheses, a path that can lead
to one value alone is that value and not a list, and nothing to select is then an error. So a filter of the suite gets
its parentheses here, and what Jayway cannot write is left out: invalid paths, as it takes some of them, functions in
filters, selectors of several kinds in one bracket, steps of slices, blanks where it has none.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast.asl.paths import InvalidPath, PathNotFound, compiled

Case = dict[str, Any]
FILTER = re.compile(r"\[\?(?!\s*\()(.*)\]$", re.DOTALL)
FUNCTION = re.compile(r"\b(length|count|match|search|value)\(")


class LeftOut(Exception):
    """Jayway's dialect cannot write a case. The message says why."""


def difference(case: Case) -> str | None:
    """How a case differs, if it does. Raises ``LeftOut``."""
    if case.get("invalid_selector"):
        raise LeftOut("an invalid path")
    if FUNCTION.search(case["selector"]):
        raise LeftOut("a function in a filter")
    selector = FILTER.sub(r"[?(\1)]", case["selector"])
    try:
        path = compiled(selector)
    except InvalidPath:
        raise LeftOut(f"no path of Jayway's: {case['name'].partition(',')[0]}") from None
    try:
        found = path.find(case["document"])
    except PathNotFound:
        found = []
    else:
        found = [found] if path.definite else found
    wanted = case.get("results") or [case["result"]]
    return None if found in wanted else f"expected {wanted[0]!r}, got {found!r}"


def main(file: Path) -> int:
    passed, left_out, failures = 0, Counter[str](), list[str]()
    for case in json.loads(file.read_text(encoding="utf-8"))["tests"]:
        try:
            differs = difference(case)
        except LeftOut as why:
            left_out[str(why)] += 1
            continue
        if differs is None:
            passed += 1
        else:
            failures.append(f"{case['name']}: {case['selector']!r} of {case['document']!r}: {differs}")
    lines = [*failures, *(f"{count} left out: {why}" for why, count in left_out.most_common())]
    lines.append(f"passed {passed} of {passed + len(failures)}")
    sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
