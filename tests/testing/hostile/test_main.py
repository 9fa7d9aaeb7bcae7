"""The proxy as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace

from holdfast.testing.hostile import HOSTILE, KIND, LIKE_THE_SERVICE, Cuts, Transactions
from holdfast.testing.hostile.__main__ import rules_of


def test_rules_are_a_preset_with_changes():
    assert rules_of("hostile", []) == HOSTILE
    assert rules_of("service", ["cuts=off"]).cuts is None
    changed = replace(KIND, cuts=Cuts(), transactions=Transactions(0.02))
    assert rules_of("kind", ["cuts=on", "transactions.held_seconds=0.02"]) == changed
    assert rules_of("service", []) == LIKE_THE_SERVICE


@pytest.mark.parametrize("change", ["cats=off", "cuts.before=often"])
def test_a_rule_that_is_none_is_refused(change):
    with pytest.raises(ValueError):
        rules_of("service", [change])


@pytest.mark.process
def test_it_prints_its_endpoint_and_at_last_its_report():
    command = [sys.executable, "-m", "holdfast.testing.hostile", "--upstream", "http://127.0.0.1:9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.stdout.read()) == {"requests": {}, "faults": {}}
    assert process.returncode == 0
