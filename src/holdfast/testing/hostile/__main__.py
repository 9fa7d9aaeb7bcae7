"""``python -m holdfast.testing.hostile``: the proxy for other processes, until it is interrupted; then its report."""

from __future__ import annotations

import argparse
import json
import signal
from typing import Final

import msgspec

from holdfast.testing.hostile.proxy import HostileDynamoDB
from holdfast.testing.hostile.rules import HOSTILE, KIND, LIKE_THE_SERVICE, Rules

PRESETS: Final = {"service": LIKE_THE_SERVICE, "hostile": HOSTILE, "kind": KIND}


def rules_of(preset: str, changes: list[str]) -> Rules:
    """The rules of a preset, changed: ``transactions.held_seconds=0.02`` sets a value, ``cuts=off`` leaves a rule out.

    Raises ``ValueError`` for a rule that is none.
    """
    rules = msgspec.to_builtins(PRESETS[preset])
    for change in changes:
        name, _, value = change.partition("=")
        rule, _, field = name.partition(".")
        if rule not in rules:
            raise ValueError(f"there is no rule {rule!r}; there are: {', '.join(rules)}")
        if value in {"off", "on"} and not field:
            rules[rule] = None if value == "off" else {}
        else:
            rules[rule] = (rules[rule] or {}) | {field: value}
    return msgspec.convert(rules, Rules, strict=False)


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.hostile", description=__doc__)
    parser.add_argument("--upstream", required=True, help="the emulator's address, such as http://127.0.0.1:8000")
    parser.add_argument("--port", type=int, default=0, help="the port to serve; any free one if it is left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rules", choices=PRESETS, default="service")
    parser.add_argument("--set", action="append", default=[], metavar="RULE.FIELD=VALUE", help="or RULE=off, RULE=on")
    options = parser.parse_args()
    try:
        rules = rules_of(options.rules, options.set)
    except ValueError as error:
        parser.error(str(error))
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with HostileDynamoDB(options.upstream, seed=options.seed, rules=rules, port=options.port) as dynamodb:
        print(dynamodb.url, flush=True)
        signal.sigwait(signals)
    print(json.dumps(dynamodb.report.as_json(), indent=2))


if __name__ == "__main__":
    main()
