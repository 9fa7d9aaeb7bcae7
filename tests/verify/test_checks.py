"""Each check, on an emulator: what is right is told so, and what is planted is found."""

from __future__ import annotations

import pytest
from tests.infra.rights import asked_by, is_allowed, policy_of

from holdfast.verify import CHECKS
from holdfast.verify.checks import contention, delivery, fencing, latency, rights, settings, sources, units
from holdfast.verify.finding import DIFFERENT, OK
from holdfast.verify.stack import fabric_of

pytestmark = [pytest.mark.aws, pytest.mark.slow, pytest.mark.process]


def test_each_check_has_a_name_of_its_own_and_says_what_it_shows() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.shows and check.usd > 0 and check.seconds > 0 for check in CHECKS)


# ── Settings ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def expiry_set(bench, *, on: bool, attribute: str = "x") -> None:
    wanted = {"Enabled": on, "AttributeName": attribute}
    await bench.cloud.send("dynamodb", "UpdateTimeToLive", TableName=bench.table, TimeToLiveSpecification=wanted)


async def test_expiry_that_is_off_or_of_another_attribute_is_found(bench):
    assert (await settings.expiry(bench)).verdict == DIFFERENT
    await expiry_set(bench, on=True, attribute="other")
    found = await settings.expiry(bench)
    assert (found.verdict, "other" in found.told) == (DIFFERENT, True)
    await expiry_set(bench, on=False, attribute="other")
    await expiry_set(bench, on=True)
    assert (await settings.expiry(bench)).verdict == OK


async def test_recovery_that_is_off_is_found(bench):
    for on, verdict in ((True, OK), (False, DIFFERENT)):
        wanted = {"PointInTimeRecoveryEnabled": on}
        await bench.cloud.send(
            "dynamodb", "UpdateContinuousBackups", TableName=bench.table, PointInTimeRecoverySpecification=wanted
        )
        assert (await settings.recovery(bench)).verdict == verdict


async def test_a_queue_that_is_not_encrypted_is_found(bench):
    assert (await settings.encryption(bench)).verdict == OK
    url = bench.outputs["DoorbellQueue"]
    for there in ("false", "true"):
        await bench.cloud.send("sqs", "SetQueueAttributes", QueueUrl=url, Attributes={"SqsManagedSseEnabled": there})
        assert (await settings.encryption(bench)).verdict == (OK if there == "true" else DIFFERENT)


async def test_a_rule_of_the_sweep_that_is_off_is_found(bench):
    assert (await sources.sources(bench)).verdict == OK
    await bench.cloud.send("events", "DisableRule", Name=f"{bench.table}-sweep")
    found = await sources.sources(bench)
    assert (found.verdict, "DISABLED" in found.told) == (DIFFERENT, True)
    await bench.cloud.send("events", "EnableRule", Name=f"{bench.table}-sweep")


# ── Rights ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def enforced(bench, monkeypatch, without: str = ""):
    """The policies decide, as IAM does; without the statements of one name."""
    fabric = fabric_of(bench.record.prefix, "code", "key")
    allowed = {role: [each for each in policy_of(fabric, role) if each["Sid"] != without] for role in rights.ROLES}

    async def may(client, probe):
        asked = asked_by(probe.service, probe.operation, probe.parameters)
        (key,) = (
            role for role, client_ in clients.items() if client_ == client._request_signer._credentials.access_key
        )
        return is_allowed(asked[0], allowed[key])

    clients = {role: f"key-of-{role}" for role in rights.ROLES}

    async def assumed(_bench, arn):
        return (clients[next(role for role in rights.ROLES if bench.outputs[f"Try{role}"] == arn)], "", "")

    monkeypatch.setattr(rights, "_may", may)
    monkeypatch.setattr(rights, "_assumed", assumed)


async def test_what_the_policies_say_is_what_the_roles_may(bench, monkeypatch):
    enforced(bench, monkeypatch)
    found = await rights.rights(bench)
    assert found.verdict == OK, found.told


@pytest.mark.parametrize(
    ("statement", "told"),
    [("Settings", "CallerPolicy may not: read the settings"), ("Blobs", "WorkerPolicy may not: read a large value")],
)
async def test_a_missing_right_is_found(statement, told, bench, monkeypatch):
    enforced(bench, monkeypatch, without=statement)
    found = await rights.rights(bench)
    assert (found.verdict, told in found.told) == (DIFFERENT, True)


async def test_what_is_not_refused_is_found(bench):
    found = await rights.rights(bench)
    assert found.verdict == DIFFERENT, "the emulator enforces nothing"
    assert "ReaderPolicy may: write an execution" in found.told
    assert "may not" not in found.told, "each request is well formed"


# ── Units, and what many writers do ─────────────────────────────────────────────────────────────────────────────────


async def test_units_of_single_writes_are_those_of_the_rules_and_others_are_found(bench, monkeypatch):
    monkeypatch.setattr(units, "PARTITION", "verify#right")
    found = await units.single(bench)
    assert found.verdict == OK, found.told
    monkeypatch.setattr(units, "PARTITION", "verify#wrong")
    monkeypatch.setattr(units, "item_units", lambda *_: 2)
    found = await units.single(bench)
    assert (found.verdict, "an item: 1 units, not 2" in found.told) == (DIFFERENT, True)


async def test_units_of_a_transaction_tell_where_the_emulator_differs(bench):
    found = await units.transactions(bench)
    assert found.figures["two items, units"] == 4
    assert found.told in {"an item and a head in the index: 5 units, not 6", ""} or found.verdict == OK


async def test_storms_lose_nothing_and_a_torn_one_is_found(bench, monkeypatch):
    monkeypatch.setattr(contention, "STORM_WRITES", 32)
    assert (await contention.storm(bench)).verdict == OK
    monkeypatch.setattr(contention, "INDEX_WRITES", 32)
    assert (await contention.hot_index(bench)).verdict == OK
    monkeypatch.setattr(contention, "STORM_PARTITION", "verify#torn")
    write = contention.DynamoStore.write
    monkeypatch.setattr(contention.DynamoStore, "write", lambda store, *writes: write(store, writes[0]))
    found = await contention.storm(bench)
    assert (found.verdict, "torn" in found.told) == (DIFFERENT, True)


async def test_a_lease_that_cannot_be_taken_over_is_found(bench, monkeypatch):
    monkeypatch.setattr(fencing, "LEASE_MS", 300)
    monkeypatch.setattr(fencing, "BEYOND_SECONDS", 0.05)
    assert (await fencing.frozen(bench)).verdict == OK
    monkeypatch.setattr(fencing, "PARTITION", "verify#too-soon")
    monkeypatch.setattr(fencing, "LEASE_MS", 60_000)
    monkeypatch.setattr(fencing, "BEYOND_SECONDS", -60.0)
    found = await fencing.frozen(bench)
    assert (found.verdict, "could not be taken over" in found.told) == (DIFFERENT, True)


# ── The function ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_calls_are_counted_and_timed(bench, monkeypatch):
    monkeypatch.setattr(latency, "WARM_CALLS", 4)
    monkeypatch.setattr(latency, "COLD_CALLS", 1)
    for check in (latency.warm, latency.cold):
        found = await check(bench)
        assert found.verdict == OK, found.told
        assert found.figures["p99, ms"] >= found.figures["p50, ms"] > 0


async def test_a_call_that_is_not_applied_is_found(bench, monkeypatch):
    monkeypatch.setattr(latency, "WARM_CALLS", 2)
    monkeypatch.setattr(latency, "call", lambda key, method, *_: delivery.call("idle", method, 0))
    found = await latency.warm(bench)
    assert (found.verdict, found.told) == (DIFFERENT, "2 calls were answered, and the actor counts 0")


async def test_a_poisoned_message_is_parked_and_the_next_one_is_handled(bench):
    found = await delivery.poisoned(bench)
    assert found.verdict == OK, found.told


async def test_a_message_that_never_comes_is_found(bench, monkeypatch):
    monkeypatch.setattr(delivery, "PARKED_WITHIN_SECONDS", 0.0)
    monkeypatch.setattr(delivery, "GOOD", "another")
    assert (await delivery.poisoned(bench)).verdict == DIFFERENT


async def test_timers_end_after_they_are_due(bench, monkeypatch):
    monkeypatch.setattr(delivery, "NAPS", 1)
    monkeypatch.setattr(delivery, "NAP_SECONDS", 1)
    found = await delivery.timers(bench)
    assert found.verdict == OK, found.told
