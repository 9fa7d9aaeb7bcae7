"""With deaths at its writes, an actor's spans tell what was committed: nothing twice, nothing that was taken back."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from opentelemetry import trace as api
from tests.otel.conftest import Collected

import holdfast as hf
from holdfast.testing import FaultsAt, Scenario
from holdfast.testing.faults import CrashAfter, CrashBefore
from holdfast.testing.simulation import run_scenario
from holdfast.testing.world import MemoryDatabase

ORDERS = 4


class Watched:
    """Calls with ids, each made twice, and an event of each; all of it traced."""

    def __init__(self, *faults: FaultsAt) -> None:
        self.collected, self.apps = Collected(), list[hf.App]()
        told = Scenario(name="traced", build=self._build, database=MemoryDatabase)
        self.run = run_scenario(told, faults)
        assert not self.run.violations
        assert self.run.observation.result == "[1, 2, 3, 4]"
        spans = self.collected.spans(*self.apps)
        self.ids = [(span.context.trace_id, span.context.span_id) for span in spans]
        self.counted = [span.attributes["counted"] for span in spans if span.name == "actor Till.pay"]

    def _build(self, app, ledger):
        self.collected.trace(app)
        self.apps.append(app)

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


def test_without_faults_each_call_is_one_span():
    watched = Watched()
    assert watched.counted == [1, 2, 3, 4]
    assert len(watched.ids) == len(set(watched.ids)) == ORDERS


@pytest.mark.parametrize("fault", [CrashBefore, CrashAfter])
def test_a_death_at_any_write_makes_no_span_of_what_was_not_committed(fault):
    (writes, *_) = Watched().run.writes
    deaths = lost = 0
    for place in range(1, writes + 1):
        watched = Watched(FaultsAt({place: fault()}))
        deaths += sum(watched.run.faults.counts.values())
        # Two attempts that both counted the same would be two spans of it: one of them was taken back.
        assert len(watched.counted) == len(set(watched.counted)), watched.counted
        assert set(watched.counted) <= {1, 2, 3, 4}
        assert len(watched.ids) == len(set(watched.ids))
        lost += ORDERS - len(watched.counted)
    assert deaths == writes
    assert lost <= writes, "a death loses the spans of one write at most"
