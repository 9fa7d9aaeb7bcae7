"""A trial from its record to its removal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.backends.aws import Meter, parse_address
from holdfast.clock import SystemClock, iso, moment
from holdfast.errors import ConfigurationError
from holdfast.verify import standing
from holdfast.verify.bench import Bench
from holdfast.verify.cloud import Cloud, aws_errors, is_refusal
from holdfast.verify.finding import DIFFERENT, Finding, by_emulator, differences, untold
from holdfast.verify.price import metered_usd
from holdfast.verify.record import Record, new_names, read_record
from holdfast.verify.registry import CHECKS, Check

LONGEST_SECONDS: Final = 3_600.0
"""After this time what was not checked is left out, and the trial is removed."""

LATER_TIMES: Final = 4
"""A check is stopped after its estimate times this."""

SHORTEST_SECONDS: Final = 120.0

Tell = Callable[[str], None]


class Report(Struct, frozen=True, kw_only=True):
    """What a trial found. ``is_emulator``: much of it says nothing about AWS. ``usd`` is for the requests that the
    checks themselves sent to the table; the rest of the bill is in the billing console after a day.
    """

    began: str
    account: str
    region: str
    prefix: str
    is_emulator: bool
    findings: Sequence[Finding]
    usd: float
    kept: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is different from what it should be."""
        return all(each.verdict != DIFFERENT for each in self.findings)


async def verify(url: str, tell: Tell, *, checks: Sequence[Check] = CHECKS, keep: bool = False) -> Report:
    """Build a trial in the account and region of a URL, check it, and remove it, also after a failure or Ctrl-C.

    The home of the URL is not touched: the trial has a random prefix. With ``keep`` it stays, and its record, which
    ``remove`` takes. Raises what building or removing it raises; what a check raises is its finding.
    """
    cloud = Cloud(parse_address(url))
    try:
        record = await _begun(cloud, url)
        try:
            tell(f"building {record.prefix} in {record.region}; its record is {record.path}")
            with aws_errors():
                bench = Bench(cloud, record, await standing.build(cloud, record), Meter())
            findings = await _all(bench, checks, tell)
        except BaseException:
            await _removed(cloud, record, tell)
            raise
        if not keep:
            await _removed(cloud, record, tell)
        return _report(bench, findings, kept=str(record.path) if keep else None)
    finally:
        cloud.close()


async def remove(record: Record, tell: Tell) -> None:
    """Remove what an earlier run has left behind. Raises if it cannot."""
    cloud = Cloud(parse_address(record.url))
    try:
        if (account := await _account(cloud)) != record.account:
            raise ConfigurationError(f"{record.path} is about the account {record.account}, and this is {account}")
        await _removed(cloud, record, tell)
    finally:
        cloud.close()


async def _begun(cloud: Cloud, url: str) -> Record:
    region = cloud.address.region
    if region is None:
        raise ConfigurationError(f"{url} names no region: add ?region=eu-west-1, for example")
    prefix, mark = new_names()
    account = await _account(cloud)
    now = iso(moment(SystemClock().now_ms()))
    record = Record(prefix=prefix, mark=mark, account=account, region=region, url=url, began=now)
    record.begin()
    return record


async def _account(cloud: Cloud) -> str:
    with aws_errors():
        return str((await cloud.send("sts", "GetCallerIdentity"))["Account"])


async def _removed(cloud: Cloud, record: Record, tell: Tell) -> None:
    tell(f"removing {record.prefix}")
    with aws_errors():
        await standing.remove(cloud, read_record(record.path))


async def _all(bench: Bench, checks: Sequence[Check], tell: Tell) -> list[Finding]:
    findings: list[Finding] = []
    end = asyncio.get_running_loop().time() + LONGEST_SECONDS
    for check in checks:
        tell(f"{check.name}: {check.shows}")
        if asyncio.get_running_loop().time() > end:
            findings.append(untold(check.name, "the trial took too long"))
        else:
            findings.append(await one(bench, check))
    return findings


async def one(bench: Bench, check: Check) -> Finding:
    """What a check finds. What stops it is a finding too: only a right that the caller lacks tells nothing."""
    try:
        async with asyncio.timeout(max(SHORTEST_SECONDS, LATER_TIMES * check.seconds)):
            found = await check.run(bench)
    except TimeoutError:
        return differences(check.name, ["it took too long"])
    except Exception as error:  # noqa: BLE001 - the other checks can still tell
        if is_refusal(error):
            return untold(check.name, f"you lack a right: {error}")
        return differences(check.name, [f"{type(error).__name__}: {error}"])
    return by_emulator(found, check.emulator) if bench.cloud.is_emulator and check.emulator else found


def _report(bench: Bench, findings: list[Finding], kept: str | None) -> Report:
    record = bench.record
    facts: dict[str, Any] = {"began": record.began, "account": record.account, "region": record.region}
    return Report(
        **facts,
        prefix=record.prefix,
        is_emulator=bench.cloud.is_emulator,
        findings=findings,
        usd=float(metered_usd(bench.spent)),
        kept=kept,
    )
