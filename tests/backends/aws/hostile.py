"""The way of homes under test to DynamoDB Local: straight, or through a proxy with the faults of the service.

``HOLDFAST_HOSTILE=<seed>`` sets the proxy in front of the emulator, for every home of a run. Tables are made, and
looked at by tests, straight. A test that counts requests or units one by one is marked ``gentle``, and left out of such
a run. Without it some tests go through the proxy nevertheless, by ``lean``.
"""

from __future__ import annotations

import atexit
import functools
import os
from typing import Any

from msgspec.structs import replace
from tests.backends.aws.lean import LeanClient
from tests.backends.aws.local import credentials, shared_client, shared_server

from holdfast.backends.aws.connection import new_client
from holdfast.backends.aws.direct import DirectConnection
from holdfast.backends.aws.direct.surroundings import look_around
from holdfast.testing.hostile import (
    HOSTILE,
    Cuts,
    Failures,
    Fault,
    HostileDynamoDB,
    IndexLag,
    Rules,
    Slowness,
    Throttling,
    TornPages,
    Transactions,
)

SEED = "HOLDFAST_HOSTILE"

OFTEN = replace(
    HOSTILE,
    transactions=Transactions(0.01),
    torn_pages=TornPages(pages=0.3, page_seconds=0.02),
    index_lag=IndexLag(0.5),
    throttling=Throttling(0.02),
    failures=Failures(0.01, 0.01),
    slowness=Slowness(0.02, 0.05),
    cuts=Cuts(0.003, 0.003, 0.003),
)
"""Often enough that every test meets some, and rare enough that a test takes no minutes."""

EXACT = replace(OFTEN, index_lag=None, short_pages=None, failures=None, cuts=None)
"""For tests of the store itself: each request is answered, in one page, and the index is up to date. Whether a write
was applied whose answer was lost, a store cannot always know; the engine above it reads again.
"""

IN_VIRTUAL_TIME = replace(OFTEN, index_lag=None, slowness=None)
"""Its lag would be hours there; ``lagging`` has an index that lags in virtual time."""


def is_hostile() -> bool:
    """Whether homes go through the proxy."""
    return SEED in os.environ


def endpoint() -> str:
    """The endpoint for homes."""
    return _proxy(OFTEN).url if is_hostile() else shared_server().endpoint


@functools.cache
def client(rules: Rules = OFTEN) -> Any:
    """A client of botocore for homes, that all of this process share."""
    if not is_hostile():
        return shared_client()
    with credentials():
        return new_client("eu-west-1", _proxy(rules).url)


def connection(rules: Rules = OFTEN) -> DirectConnection:
    """A connection of a home of its own, on the loop that runs, as homes have one."""
    endpoint = _proxy(rules).url if is_hostile() else shared_server().endpoint
    with credentials():
        return DirectConnection("eu-west-1", endpoint, found=look_around("eu-west-1", endpoint, "dynamodb"))


@functools.cache
def lean() -> LeanClient:
    """A client for homes in virtual time: through the proxy, whatever the run."""
    return LeanClient(_proxy(IN_VIRTUAL_TIME).url)


def suffered() -> int:
    """How many faults homes in virtual time have met so far."""
    return _proxy(IN_VIRTUAL_TIME).report.faults.total()


REFUSALS = (
    Fault.TRANSACTION_CANCELLED,
    Fault.WRITE_CONFLICTED,
    Fault.READ_CONFLICTED,
    Fault.KEY_THROTTLED,
    Fault.INDEX_THROTTLED,
    Fault.THROTTLED,
    Fault.UNPROCESSED,
)
"""After each of these a store sends a request once more."""


def refused() -> int:
    """How many requests of stores that are tested by themselves were refused so far, in whole or in part."""
    return sum(_proxy(EXACT).report.faults[each] for each in REFUSALS) if is_hostile() else 0


def told() -> list[str]:
    """What homes have suffered so far; fails if it is nothing."""
    reports = [each.report for each in MADE if each.report.requests.total() > ENOUGH]
    for report in reports:
        assert report.faults, f"no fault in {report.requests.total()} requests: nothing was proven"
    return list(map(str, reports))


ENOUGH = 1_000
MADE: list[HostileDynamoDB] = []


@functools.cache
def _proxy(rules: Rules) -> HostileDynamoDB:
    shared_client()  # the emulator is warm then
    proxy = HostileDynamoDB(shared_server().endpoint, seed=int(os.environ.get(SEED, "1")), rules=rules).__enter__()
    MADE.append(proxy)
    atexit.register(proxy.__exit__)
    return proxy
