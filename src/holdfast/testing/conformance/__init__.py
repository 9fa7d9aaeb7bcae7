"""What every ``Store`` must do: one suite of tests, the same for all backends.

A backend's test file is a subclass, and pytest does the rest::

    class TestMyStore(StoreConformance):
        async def open_store(self, folder: Path) -> Store:
            return await MyStore.open(folder / "data")

A store that has ``holdfast.ports.Purges`` uses ``PurgeConformance`` too, one that has ``Census`` uses
``CensusConformance``.

The suite is put together from one class per verb; each test is one clause of the contract in ``holdfast.ports``. The
last two let Hypothesis make up histories and compare the store with the memory store. Needs ``pytest`` and
``hypothesis``.
"""

from __future__ import annotations

from holdfast.testing.conformance.census import CensusConformance
from holdfast.testing.conformance.conditions import Conditions
from holdfast.testing.conformance.histories import Histories
from holdfast.testing.conformance.messages import Messages
from holdfast.testing.conformance.purging import PurgeConformance
from holdfast.testing.conformance.reads import Finding, Reading
from holdfast.testing.conformance.writes import AllOrNothing, Writing


class StoreConformance(Writing, AllOrNothing, Conditions, Reading, Finding, Histories, Messages):
    """Subclass it, name the subclass ``Test…``, and implement ``open_store``."""


__all__ = ["CensusConformance", "PurgeConformance", "StoreConformance"]
