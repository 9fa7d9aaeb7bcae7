"""The checks, in the order in which they run: those that make a load last, as the stream follows it for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from holdfast.verify.bench import Bench
from holdfast.verify.checks import contention, delivery, fencing, latency, rights, settings, sources, units
from holdfast.verify.finding import Finding


class Check(Struct, frozen=True, kw_only=True):
    """One check. ``needs`` are the rights of the caller that it takes besides those of a worker. ``emulator`` says why
    an emulator cannot tell, if it cannot. ``usd`` and ``seconds`` are estimates, on the safe side.
    """

    name: str
    shows: str
    run: Callable[[Bench], Awaitable[Finding]]
    needs: tuple[str, ...] = ()
    emulator: str = ""
    usd: float = 0.001
    seconds: int = 5


CHECKS: Final = (
    Check(
        name=settings.EXPIRY,
        shows="the table deletes what has expired",
        run=settings.expiry,
        needs=("dynamodb:DescribeTimeToLive",),
        emulator="its CloudFormation leaves the setting out",
    ),
    Check(
        name=settings.RECOVERY,
        shows="the table can be restored to a point in time",
        run=settings.recovery,
        needs=("dynamodb:DescribeContinuousBackups",),
        emulator="its CloudFormation leaves the setting out",
    ),
    Check(
        name=settings.ENCRYPTION,
        shows="table, bucket and queues are encrypted at rest",
        run=settings.encryption,
        needs=("dynamodb:DescribeTable", "s3:GetEncryptionConfiguration", "sqs:GetQueueAttributes"),
        emulator="it encrypts nothing",
    ),
    Check(
        name=sources.SOURCES,
        shows="queues, stream and the rule of the sweep call the function",
        run=sources.sources,
        needs=("lambda:ListEventSourceMappings", "events:DescribeRule", "events:ListTargetsByRule"),
        seconds=60,
    ),
    Check(
        name=rights.RIGHTS,
        shows="each role may do what it needs, and is refused the rest",
        run=rights.rights,
        needs=("sts:AssumeRole",),
        emulator="it enforces no permissions",
        seconds=120,
    ),
    Check(
        name=units.SINGLE,
        shows="single writes are billed as the meter's rules say",
        run=units.single,
    ),
    Check(
        name=units.TRANSACTIONS,
        shows="transactions are billed as the rules say, an index entry included",
        run=units.transactions,
        emulator="emulators disagree on what an index entry costs in a transaction",
    ),
    Check(
        name=fencing.FROZEN,
        shows="a process that was frozen beyond its lease is refused when it wakes",
        run=fencing.frozen,
        seconds=20,
    ),
    Check(
        name=delivery.POISONED,
        shows="a poisoned ordered message is parked, and the next one is handled",
        run=delivery.poisoned,
        needs=("sqs:SendMessage", "lambda:InvokeFunction"),
        usd=0.01,
        seconds=240,
    ),
    Check(
        name=delivery.LOST,
        shows="work without a wake-up is found by the stream or the sweep",
        run=delivery.lost,
        emulator="its stream and its rules run by clocks of their own",
        usd=0.01,
        seconds=150,
    ),
    Check(
        name=delivery.TIMERS,
        shows="timers end when they are due",
        run=delivery.timers,
        emulator="its queue and its rules run by clocks of their own",
        usd=0.01,
        seconds=90,
    ),
    Check(
        name=latency.COLD,
        shows="an actor call that meets a new environment",
        run=latency.cold,
        needs=("lambda:InvokeFunction", "lambda:UpdateFunctionConfiguration", "lambda:GetFunctionConfiguration"),
        emulator="its functions are processes of this machine",
        usd=0.01,
        seconds=120,
    ),
    Check(
        name=latency.WARM,
        shows="an actor call that meets a warm environment",
        run=latency.warm,
        needs=("lambda:InvokeFunction",),
        emulator="its functions are processes of this machine",
        usd=0.01,
        seconds=60,
    ),
    Check(
        name=contention.STORM,
        shows="transactions that overlap are refused or applied, and none is lost",
        run=contention.storm,
        emulator="it never refuses transactions that overlap",
        usd=0.01,
        seconds=60,
    ),
    Check(
        name=contention.HOT_INDEX,
        shows="a part of the index takes writes as fast as they are sent",
        run=contention.hot_index,
        emulator="it never throttles",
        usd=0.05,
        seconds=60,
    ),
)
"""A new check is its function in ``checks/`` and a row here."""
