"""JSONata's own test suite against ours: ``python -m tests.asl.jsonata_suite FOLDER``.

FOLDER is the ``test/test-suite`` of https://github.com/jsonata-js/jsonata, with ``groups`` and ``datasets``. It is not
kept here. A state machine has no context item, so the input of a case is a variable, and the expression a field of an
object that is made for it. What Step Functions refuses is left out, and counted by the reason.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.asl.errors import EvaluationError
from holdfast.asl.jsonata import UNSUPPORTED, InvalidExpression, compile_expression, parsed
from holdfast.asl.jsonata_reading import LATER_OPERATORS, tokens

Case = dict[str, Any]
UNDEFINED = object()
OVER_THE_LIMIT = ("U", "D1011")
"""Codes of an evaluation that takes too long or is too deep: whatever ours says, it has to end."""


class LeftOut(Exception):
    """A case is about what Step Functions has not. The message says what."""


def cases_in(folder: Path) -> Iterator[tuple[str, Case]]:
    """All cases, each with its name."""
    for file in sorted((folder / "groups").rglob("*.json")):
        read = json.loads(file.read_text(encoding="utf-8"))
        for number, case in enumerate(read if isinstance(read, list) else [read]):
            if "expr-file" in case:
                case["expr"] = (file.parent / case["expr-file"]).read_text(encoding="utf-8")
            if case.get("dataset"):
                case["data"] = dataset(folder / "datasets" / f"{case['dataset']}.json")
            yield f"{file.parent.name}/{file.stem}#{number}", case


@cache
def dataset(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def difference(case: Case) -> str | None:
    """How a case differs, if it does. Raises ``LeftOut``."""
    expected = case.get("code") or case.get("error", {}).get("code")
    try:
        found = value_of(case)
    except (InvalidExpression, EvaluationError) as error:
        told = str(error.cause if isinstance(error, EvaluationError) else error)
        if expected is None:
            return f"expected a value, failed with {told}"
        limited = str(expected).startswith(OVER_THE_LIMIT)
        return None if limited or str(expected) in told else f"expected {expected}, failed with {told}"
    if expected is not None and "depth" in case:
        raise LeftOut("a depth that is the case's own")
    if expected is not None:
        return f"expected {expected}, got {found!r}"
    wanted = case.get("result", UNDEFINED)
    return None if same(found, wanted) else f"expected {wanted!r}, got {found!r}"


def value_of(case: Case) -> Any:
    """What ours makes of a case. Raises ``LeftOut``, ``InvalidExpression``, ``EvaluationError``."""
    source = case["expr"]
    parsed(source)
    words = {token.text for token in tokens(source)}
    for left_out in ("$$", "$eval", *LATER_OPERATORS):
        if left_out in words:
            raise LeftOut(left_out)
    variables = dict(case.get("bindings", {}))
    if "data" in case:
        if isinstance(case["data"], list):
            raise LeftOut("the context is an array")
        variables["input"], source = case["data"], f"$input.{{'r': (\n{source}\n)}}"
    else:
        source = f"{{'r': (\n{source}\n)}}"
    try:
        expression = compile_expression(source)
    except InvalidExpression as refused:
        if refused.code == UNSUPPORTED:
            raise LeftOut("a context that is not there") from refused
        raise
    found = expression.evaluate({}, variables, field="r", now_ms=0, seed=7)
    return found.get("r", UNDEFINED)


def same(found: Any, wanted: Any) -> bool:
    """Whether two values are the same JSON; numbers may differ in their last digit, as between machines."""
    match found, wanted:
        case dict(), dict():
            return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in found)
        case list(), list():
            return len(found) == len(wanted) and all(map(same, found, wanted))
        case (bool(), _) | (_, bool()):
            return found is wanted
        case int() | float(), int() | float():
            return abs(found - wanted) <= 1e-12 * abs(wanted)
        case _:
            return bool(found == wanted)


def main(folder: Path) -> int:
    passed, left_out, failures = 0, Counter[str](), list[str]()
    for name, case in cases_in(folder):
        try:
            differs = difference(case)
        except LeftOut as why:
            left_out[str(why)] += 1
            continue
        if differs is None:
            passed += 1
        else:
            failures.append(f"{name}: {case['expr']!r}: {differs}")
    lines = [*failures, *(f"{count} left out: {why}" for why, count in left_out.most_common())]
    lines.append(f"passed {passed} of {passed + len(failures)}")
    sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
