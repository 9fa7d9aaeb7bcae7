"""Executions in trouble: what they wait for, why they failed, and what they call."""

from __future__ import annotations

import re
from datetime import timedelta

from tests.troubles.conftest import STORM
from tests.troubles.stage import trouble

from holdfast.cli.checks import waiting
from holdfast.workflows import diagnosis


@trouble("a KeyError in a step", "doctor", "show W ID", pages=("Executions", "W ID"))
def test_a_key_error_in_a_step(shop):
    shop.status("quote", "quote-1", "FAILED")
    told = shop.look("doctor", "show quote quote-1")
    assert "return PRICES[sku]" in told
    assert "KeyError: 'coffee'" in told
    assert "Repair the cause, then retry" in told
    assert "next: holdfast retry quote quote-1" in told
    page = shop.click("Executions", "quote quote-1")
    assert "return PRICES[sku]" in page
    assert "holdfast retry quote quote-1" in page


@trouble("a hung HTTP call", "doctor", "show W ID", pages=("Executions", "W ID"))
def test_a_hung_http_call(shop, monkeypatch):
    """It is told in the second renewal of the lease, and taken for hung after a minute, which is short here."""
    shop.waits("exchange", "exchange-1")
    for module in (diagnosis, waiting):
        monkeypatch.setattr(module, "SILENT_AFTER", timedelta(seconds=1))
    told = shop.look("doctor", "show exchange exchange-1")
    assert "step ask has run for" in told
    assert "A call that hangs looks like this: give the step a timeout=" in told
    assert "planted.py" in told
    assert "next: holdfast cancel exchange exchange-1" in told
    page = shop.click("Executions", "exchange exchange-1")
    assert "A call that hangs looks like this" in page
    assert "holdfast cancel exchange exchange-1" in page


@trouble("a mistyped signal", "doctor", "show W ID", pages=("Executions", "W ID"))
def test_a_mistyped_signal(shop):
    shop.waits("approval", "approval-1")
    told = shop.look("doctor", "show approval approval-1")
    assert "it waits for signal approved, and aproved came" in told
    assert "next: holdfast signal approval approval-1 approved JSON" in told
    page = shop.click("Executions", "approval approval-1")
    assert "it waits for signal approved, and aproved came" in page


@trouble("a blocked version", "doctor", "show W ID", pages=("Executions", "W ID"))
def test_a_blocked_version(shop):
    shop.status("tour", "tour-1", "BLOCKED")
    told = shop.look("doctor", "show tour tour-1")
    assert "is pinned to version 1; this worker has 2" in told
    assert "Run a worker with the old code, move it" in told
    assert "next: holdfast move tour tour-1" in told
    assert "is pinned to version 1; this worker has 2" in shop.click("Executions", "tour tour-1")


@trouble("two versions of code", "doctor", "show W ID", pages=("Executions", "W ID"))
def test_two_versions_of_code(shop):
    shop.status("packing", "packing-1", "BLOCKED")
    told = shop.look("doctor", "show packing packing-1")
    assert "the journal says that reserve#0 (step) came next, but the code now waits for weigh#0" in told
    assert "Deploy the code that it needs" in told
    assert "next: holdfast debug packing packing-1" in told
    assert "came next, but the code now waits for weigh#0" in shop.click("Executions", "packing packing-1")


@trouble("a body that spins", "doctor", "show W ID", pages=("Executions", "W ID"))
def test_a_body_that_spins(shop):
    shop.status("spinning", "spinning-1", "BLOCKED")
    told = shop.look("doctor", "show spinning spinning-1")
    assert re.search(r"it goes round at planted\.py:\d+", told)
    assert "await what it is to wait for" in told
    assert "next: holdfast debug spinning spinning-1" in told
    assert "it goes round at planted.py:" in shop.click("Executions", "spinning spinning-1")


@trouble("a child that waits", "ls", "show W ID", pages=("Executions", "W ID"))
def test_a_child_that_waits(shop):
    shop.waits("purchase", "purchase-1")
    told = shop.look("ls", "show purchase purchase-1")
    assert "it waits for child approval, which is SUSPENDED" in told
    assert "is SUSPENDED, and waits for signal approved" in told
    assert re.search(r"next: holdfast show approval '~\w+'", told)
    assert "is SUSPENDED, and waits for signal approved" in shop.click("Executions", "purchase purchase-1")


@trouble("a lost callback", "ls", "show W ID", pages=("Executions", "W ID"))
def test_a_lost_callback(shop):
    shop.waits("parcel", "parcel-1")
    told = shop.look("ls", "show parcel parcel-1")
    assert "The holder of its token has not answered yet" in told
    assert "next: holdfast callback answer parcel parcel-1 'callback#0' --value JSON" in told
    page = shop.click("Executions", "parcel parcel-1")
    assert "The holder of its token has not answered yet" in page


@trouble("a retry storm", "doctor", "show W ID", pages=("Executions", "W ID"))
def test_a_retry_storm(shop):
    told = shop.until_told("doctor", f"{STORM} × step carry")
    assert f"{STORM} of them after one error: repair what the step calls, or pause them" in told
    assert (
        f"{STORM} × step carry, URLError: <urlopen error [Errno 111] Connection refused>; the next attempt in" in told
    )
    (first,) = set(re.findall(r"show shipment (shipment-\d+)", told))
    told = shop.look("doctor", f"show shipment {first}")
    assert "step carry is tried again in" in told
    assert f"next: holdfast retry shipment {first} --now" in told
    assert "Connection refused" in shop.click("Executions", f"shipment {first}")


@trouble("a rate-limited API", "doctor", "show W ID", pages=("Executions", "W ID"))
def test_a_rate_limited_api(shop):
    shop.until_told("doctor", "step quota")
    told = shop.look("doctor", "show limited limited-1")
    assert "429 Too Many Requests" in told
    assert "Retry-After: 3600" in told
    assert "step quota is tried again in" in told
    assert "next: holdfast retry limited limited-1 --now" in told
    assert "Retry-After: 3600" in shop.click("Executions", "limited limited-1")
