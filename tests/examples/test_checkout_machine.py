"""The checkout as a state machine does what the checkout as a workflow does: sells once, or gives all back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.checkout_machine import machine, workflow
from examples.checkout_machine.shop import Shop

import holdfast as hf
from holdfast.testing import PATIENT, VirtualClock, run_virtual

ROOT = Path(__file__).parents[2]
WAYS = pytest.mark.parametrize("way", [machine, workflow], ids=["machine", "workflow"])


def sell(way, shop, *, cents=1_990, count=1, skus=("lamp", "bulb")):
    app = hf.App("shop", home="memory://", clock=VirtualClock(), limits=PATIENT)
    checkout = way.declare(app, shop)
    order = {"id": "o-1", "cents": cents, "items": [{"sku": sku, "count": count} for sku in skus]}

    async def main():
        async with app.worker():
            handle = await checkout.start(order, id="o-1")
            try:
                return await handle
            except hf.ExecutionFailed as failed:
                return failed.error_message

    return run_virtual(main)


@WAYS
def test_an_order_is_sold_and_paid_once(way):
    shop = Shop({"lamp": 5, "bulb": 5})
    assert sell(way, shop) == {"parcel": "parcel-o-1"}
    assert (shop.payments, shop.stock) == ({"o-1": 1_990}, {"lamp": 4, "bulb": 4})


@WAYS
def test_an_outage_of_the_bank_is_waited_for(way):
    shop = Shop({"lamp": 5, "bulb": 5})
    shop.outages = 3
    assert sell(way, shop) == {"parcel": "parcel-o-1"}


@WAYS
@pytest.mark.parametrize(
    ("trouble", "told"),
    [({"cents": 200_000}, "over the limit"), ({"count": 9}, ""), ({"skus": ("lamp", "none")}, "none")],
)
def test_what_was_held_is_given_back_if_the_order_fails(way, trouble, told):
    shop = Shop({"lamp": 5, "bulb": 5})
    assert told in sell(way, shop, **trouble)
    assert shop.payments == {}
    assert +shop.stock == {"lamp": 5, "bulb": 5}


def test_the_story_runs():
    run = subprocess.run(
        [sys.executable, "-m", "examples.checkout_machine"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "Reserve#0[0]/Reserve one#0/reserve#0, Charge#0/charge#0, Ship#0/ship#0" in run.stdout
