"""The test kit: virtual time, faults, crashes, zombies and replay, for workflows and for the engine itself.

- ``run_virtual``: run a coroutine in virtual time: a year passes in milliseconds.
- ``VirtualClock``: the clock of an app in such a run.
- ``PATIENT``: limits for an app in a run of months or years.
- ``with_bus``, ``MemoryBus``: any home with a bus, and a bus whose events can be inspected.
- ``faulty_home``: any home, with failures of the store and the doorbell by plan.
- ``crash_at_every_write``: a scenario, run again with a crash at each of its writes.
- ``crash_twice``: the same, with a second crash at each write of the recovery.
- ``pause_at_every_write``: the same, with a process that is stopped, loses its lease and comes back.
- ``lag_at_every_write``: the same, with a process that hears from its store too late.
- ``run_swarm``: many scenarios, users and processes at once, and faults drawn from seeds.
- ``replay_history``: new code, checked against recorded histories.
- ``HostileDynamoDB``: an emulator of DynamoDB with the faults and limits of the service.
"""

from __future__ import annotations

from holdfast.backends.memory import MemoryBus
from holdfast.testing.crashes import (
    Report,
    crash_at_every_write,
    crash_twice,
    lag_at_every_write,
    pause_at_every_write,
)
from holdfast.testing.faults import FaultCounts, FaultPlan, FaultsAt, RandomFaults, Rates
from holdfast.testing.faulty import faulty_home
from holdfast.testing.faulty_bus import with_bus
from holdfast.testing.hostile import HostileDynamoDB
from holdfast.testing.ledger import Ledger
from holdfast.testing.patience import PATIENT
from holdfast.testing.process import Process, ProcessDied
from holdfast.testing.replay import ReplayReport, record_history, replay_history
from holdfast.testing.simulation import Histories, Scenario, run_scenario
from holdfast.testing.swarm import SwarmReport, run_swarm
from holdfast.testing.virtual_time import Deadlock, Livelock, OutOfTime, VirtualClock, VirtualTimeLoop, run_virtual
from holdfast.testing.world import MemoryDatabase, World

__all__ = [
    "PATIENT",
    "Deadlock",
    "FaultCounts",
    "FaultPlan",
    "FaultsAt",
    "Histories",
    "HostileDynamoDB",
    "Ledger",
    "Livelock",
    "MemoryBus",
    "MemoryDatabase",
    "OutOfTime",
    "Process",
    "ProcessDied",
    "RandomFaults",
    "Rates",
    "ReplayReport",
    "Report",
    "Scenario",
    "SwarmReport",
    "VirtualClock",
    "VirtualTimeLoop",
    "World",
    "crash_at_every_write",
    "crash_twice",
    "faulty_home",
    "lag_at_every_write",
    "pause_at_every_write",
    "record_history",
    "replay_history",
    "run_scenario",
    "run_swarm",
    "run_virtual",
    "with_bus",
]
