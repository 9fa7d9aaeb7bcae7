"""With deaths at its writes, an actor's spans tell what was committed: nothing twice, nothing that was taken back."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from opentelemetry import trace as api
from tests.otel.watched import watch

import holdfast as hf
from holdfast.testing import FaultsAt, Scenario
from holdfast.testing.faults import CrashAfter, CrashBefore

ORDERS = 4


def build(app, ledger):
    """Calls with ids, each made twice, that say on their spans what they have counted."""

    class Till(hf.Actor, app=app):
        n: int = 0

        async def pay(self) -> int:
            self.n += 1
            api.get_current_span().set_attribute("counted", self.n)
            return self.n

    async def user():
        heard = set()
        for number in range(ORDERS):
            call = partial(Till.at("t", request_id=f"r{number}").pay)
            heard |= set(await asyncio.gather(call(), call()))
        return sorted(heard)

    return user


def counted(*faults):
    """A run, what its spans say was counted, and how many are lost."""
    run, compared = watch(Scenario(name="traced", build=build), faults)
    assert not run.violations
    assert run.observation.result == "[1, 2, 3, 4]"
    return run, [span.attributes["counted"] for span in compared.emitted], compared.lost()


def test_without_faults_each_call_is_one_span():
    _, told, lost = counted()
    assert (told, lost) == ([1, 2, 3, 4], 0)


@pytest.mark.parametrize("fault", [CrashBefore, CrashAfter])
def test_a_death_at_any_write_makes_no_span_of_what_was_not_committed(fault):
    run, *_ = counted()
    deaths = 0
    for place in range(1, run.writes[0] + 1):
        crashed, told, lost = counted(FaultsAt({place: fault()}))
        deaths += crashed.faults.counts.total()
        # Two attempts that both counted the same would be two spans of it: one of them was taken back.
        assert len(told) == len(set(told)) == ORDERS - lost
        assert lost <= 1, "a death loses the spans of one write at most"
    assert deaths == run.writes[0]
