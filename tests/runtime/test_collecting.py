"""A worker has Python look for cycles less often, says how to leave that alone, and puts everything back."""

from __future__ import annotations

import gc

import pytest

import holdfast as hf
from holdfast.runtime.collecting import frozen


@pytest.fixture(autouse=True)
def thresholds():
    before, was_enabled = gc.get_threshold(), gc.isenabled()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    (gc.enable if was_enabled else gc.disable)()


async def within(**limits):
    async with hf.App("shop", home="memory://", limits=hf.Limits(**limits)).worker():
        return gc.get_threshold()


async def test_a_worker_has_cycles_looked_for_less_often_while_it_works():
    assert await within() == (20_000, 0, 1_000)
    assert await within(collect_after=5_000) == (5_000, 0, 1_000)
    assert gc.get_threshold() == (700, 10, 10)


async def test_it_leaves_alone_what_the_process_has_set_itself():
    assert await within(collect_after=0) == (700, 10, 10)
    gc.set_threshold(50_000, 5, 5)
    assert await within() == (50_000, 5, 5)
    gc.set_threshold(0, 10, 10)
    assert await within() == (0, 10, 10)
    gc.set_threshold(700, 10, 10)
    gc.disable()
    assert await within() == (700, 10, 10)


async def test_what_goes_wrong_in_the_block_puts_it_back_too():
    with pytest.raises(ZeroDivisionError):
        async with hf.App("shop", home="memory://").worker():
            raise ZeroDivisionError
    assert gc.get_threshold() == (700, 10, 10)


def test_what_a_worker_has_loaded_is_left_out_while_it_works():
    with frozen(20_000):
        assert gc.get_freeze_count() > 1_000
    assert gc.get_freeze_count() == 0
    with frozen(0):
        assert gc.get_freeze_count() == 0
    gc.disable()
    with frozen(20_000):
        assert gc.get_freeze_count() == 0
