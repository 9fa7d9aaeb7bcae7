"""Sealed homes: nothing that was given as a value can be read in what is stored."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import tracemalloc
import zlib
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.coordination.sealing.secrets_kept import CARD, LARGE_CARD, Cipher, Paid, found_in, use_everything

import holdfast as hf
from holdfast.backends.memory import MemoryData, MemoryStore, open_memory_home
from holdfast.backends.memory.data import StoredBlob
from holdfast.clock import SystemClock
from holdfast.coordination.offload import roomy
from holdfast.coordination.sealing import Envelope, envelope_for, sealed
from holdfast.coordination.sealing.store import SealedStore
from holdfast.errors import Refused, StoreUnusable
from holdfast.items import ABSENT, Item, Put
from holdfast.ports import BLOB_MARK, Home, Store
from holdfast.references import FIRST_SEAL_MARK, SEAL_MARK
from holdfast.testing.conformance import StoreConformance


def sealed_home(home: Home) -> Home:
    return sealed(home, Envelope(Cipher(b"key")), partial(roomy, clock=SystemClock(), refused=()))


class TestSealedStore(StoreConformance):
    """The contract is kept by a store that sees sealed bodies only."""

    histories = message_histories = 15  # what it wraps plays more of them

    async def open_store(self, folder: Path) -> Store:
        return SealedStore(MemoryStore(MemoryData()), Envelope(Cipher(b"key")))


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


@pytest.mark.parametrize("is_sealed", [True, False])
async def test_no_value_can_be_read_in_the_file_or_in_a_log(tmp_path, caplog, is_sealed):
    caplog.set_level(logging.DEBUG)
    cipher = Cipher(b"key")
    app = hf.App("shop", home=f"sqlite:///{tmp_path}/home.db", seal=hf.SealedOnly(cipher) if is_sealed else None)
    async with app:  # keeps the log, and so every byte that was ever written, until the end
        await use_everything(app)
        assert bool(found_in(stored(tmp_path))) is not is_sealed
    assert (cipher.sealed > 20) is is_sealed
    # Of an app without a seal the log has the messages of its errors, and no other value.
    told = [each.getMessage() for each in caplog.records if CARD in each.getMessage()]
    assert bool(told) is not is_sealed
    assert all("ValueError: the card number is" in each for each in told)


async def test_without_the_seal_a_home_says_so(tmp_path):
    home = f"sqlite:///{tmp_path}/home.db"
    async with hf.App("shop", home=home, seal=Cipher(b"key")) as app:
        await app.document(Paid, "d").create(Paid(CARD))
    async with hf.App("shop", home=home) as app:
        with pytest.raises(StoreUnusable, match="sealed"):
            await app.document(Paid, "d").get()
    async with hf.App("shop", home=home, seal=Cipher(b"another")) as app:
        with pytest.raises(StoreUnusable, match="key"):
            await app.document(Paid, "d").get()


async def test_what_was_written_before_the_seal_is_read_as_it_is(tmp_path):
    home = f"sqlite:///{tmp_path}/home.db"
    async with hf.App("shop", home=home) as app:
        await app.document(Paid, "d").create(Paid(CARD))
    async with hf.App("shop", home=home, seal=Cipher(b"key")) as app:
        assert (await app.document(Paid, "d").get()).value == Paid(CARD)


async def test_a_body_that_was_moved_to_another_place_does_not_open():
    data = MemoryData()
    home = sealed_home(open_memory_home(data=data))
    await home.store.write(Put(Item("mine", body=b'{"balance":0}'), ABSENT))
    await home.store.write(Put(Item("yours", body=b'{"balance":9}'), ABSENT))
    data.set(Item("mine", body=data.find("yours", "@").body))
    with pytest.raises(StoreUnusable, match="does not unseal"):
        await home.store.get("mine")


async def test_a_refusal_carries_what_was_written():
    home = sealed_home(open_memory_home())
    await home.store.write(Put(Item("p", body=b"1"), ABSENT))
    with pytest.raises(Refused) as refused:
        await home.store.write(Put(Item("p", body=b"2"), ABSENT))
    assert refused.value.item == Item("p", body=b"1")


async def test_a_seal_of_another_version_is_not_taken_for_one_of_this():
    data = MemoryData()
    home = sealed_home(open_memory_home(data=data))
    await home.store.write(Put(Item("p", body=b"1"), ABSENT))
    data.set(Item("p", body=FIRST_SEAL_MARK + data.find("p", "@").body[1:]))
    with pytest.raises(StoreUnusable, match="does not unseal"):
        await home.store.get("p")


# ── Large values ────────────────────────────────────────────────────────────────────────────────────────────────────


def of_wallets(app: hf.App) -> type[hf.Actor]:
    class Wallet(hf.Actor, app=app):
        text: str = ""

        async def keep(self, text: str) -> None:
            self.text = text

        @hf.read
        async def look(self) -> str:
            return self.text

    return Wallet


async def wallets_of(data: MemoryData, seal: Any) -> tuple[hf.App, type[hf.Actor]]:
    app = hf.App("bank", home=lambda: opened_on(data), seal=seal)
    return app, of_wallets(app)


async def opened_on(data: MemoryData) -> Home:
    return open_memory_home(data=data)


def state_of(data: MemoryData, owner: str) -> Item:
    """The item that refers to what an owner has put aside."""
    items = (item for each in data.partitions.values() for item in each.values())
    (found,) = (item for item in items if item.partition.endswith(owner) and item.body.startswith(BLOB_MARK))
    return found


async def test_a_reference_to_anothers_blob_does_not_open():
    data = MemoryData()
    app, wallet = await wallets_of(data, Cipher(b"key"))
    async with app.worker():
        await wallet.at("alice").keep(LARGE_CARD[::-1])
        await wallet.at("bob").keep(LARGE_CARD)
        assert await wallet.at("bob").look() == LARGE_CARD
    alice, bob = state_of(data, "alice"), state_of(data, "bob")
    data.set(replace(alice, body=bob.body))
    app, wallet = await wallets_of(data, Cipher(b"key"))
    async with app.worker():
        with pytest.raises(StoreUnusable, match="does not unseal"):
            await wallet.at("alice", timeout="5s").look()


async def test_a_blob_whose_content_was_changed_for_anothers_does_not_open():
    data = MemoryData()
    home = sealed_home(open_memory_home(data=data))
    for owner in ("alice", "bob"):
        await home.store.write(Put(Item(owner, body=Random(owner).randbytes(100_000)), ABSENT))
    first, second = (data.find(owner, "@").body[1:65].decode() for owner in ("alice", "bob"))
    data.blobs[first] = data.blobs[second]
    with pytest.raises(StoreUnusable):
        await home.store.get("alice")
    assert (await home.store.get("bob")).body == Random("bob").randbytes(100_000)


async def test_the_same_value_of_two_owners_is_not_told_by_its_name():
    data = MemoryData()
    home = sealed_home(open_memory_home(data=data))
    for owner in ("alice", "bob"):
        await home.store.write(Put(Item(owner, body=LARGE_CARD.encode()), ABSENT))
    assert data.find("alice", "@").body != data.find("bob", "@").body
    assert hashlib.sha256(LARGE_CARD.encode()).hexdigest() not in data.blobs


async def test_a_large_event_in_one_order_of_all_is_decided_once_more_and_no_more(tmp_path):
    app = hf.App("shop", home=f"sqlite:///{tmp_path}/home.db", seal=Cipher(b"key"))
    async with app:
        stream = app.streams(Paid, name="payments", ordered=True).at("s")
        async with asyncio.timeout(20):
            await stream.append(Paid(LARGE_CARD))
        assert [each.event async for each in stream.read()] == [Paid(LARGE_CARD)]


async def test_sealed_bytes_become_no_more_than_they_say():
    """Whoever has the key, or a broken seal, can pack a few bytes that become many."""
    length, bomb = (1_000).to_bytes(8, "big"), zlib.compress(bytes(64 * 2**20), 9)
    packed = b"z" + length + bomb
    data = SEAL_MARK + Cipher(b"key").seal(packed, b"2\np\n@")
    tracemalloc.start()
    try:
        with pytest.raises(StoreUnusable, match="does not unseal"):
            Envelope(Cipher(b"key")).open(data, "p\n@")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 * 2**20


# ── From before, and by somebody else ───────────────────────────────────────────────────────────────────────────────


def first_sealed(cipher: Cipher, data: MemoryData, owner: str, body: bytes) -> None:
    """An item as the first release that had seals has stored it."""
    place = f"{owner}\n@"
    if len(body) <= 65_536:
        data.set(Item(owner, body=FIRST_SEAL_MARK + cipher.seal(body, place.encode())))
        return
    digest = hashlib.sha256(body).hexdigest()
    data.blobs[digest] = StoredBlob(FIRST_SEAL_MARK + cipher.seal(zlib.compress(body), digest.encode()), 0)
    data.set(Item(owner, body=BLOB_MARK + digest.encode() + b"z%d" % len(body)))


@pytest.mark.parametrize("body", [b'{"small":1}', LARGE_CARD.encode()])
async def test_what_an_earlier_release_has_sealed_is_read(body):
    data, cipher = MemoryData(), Cipher(b"key")
    first_sealed(cipher, data, "p", body)
    home = sealed(open_memory_home(data=data), Envelope(cipher), partial(roomy, clock=SystemClock(), refused=()))
    assert (await home.store.get("p")).body == body


async def strictly(data: MemoryData, partition: str) -> Item | None:
    envelope = envelope_for(hf.SealedOnly(Cipher(b"key")))
    home = sealed(open_memory_home(data=data), envelope, partial(roomy, clock=SystemClock(), refused=()))
    return await home.store.get(partition)


@pytest.mark.parametrize("body", [b'{"small":1}', LARGE_CARD.encode()])
async def test_strictly_what_is_not_sealed_is_refused(body):
    data = MemoryData()
    await roomy(open_memory_home(data=data), SystemClock()).store.write(Put(Item("p", body=body)))
    with pytest.raises(StoreUnusable, match="holdfast seal"):
        await strictly(data, "p")


async def test_strictly_what_an_earlier_release_has_sealed_for_its_place_is_read_and_a_loose_blob_is_not():
    data, cipher = MemoryData(), Cipher(b"key")
    first_sealed(cipher, data, "small", b"1")
    first_sealed(cipher, data, "large", LARGE_CARD.encode())
    found = await strictly(data, "small")
    assert found is not None and found.body == b"1"
    with pytest.raises(StoreUnusable, match="holdfast seal"):
        await strictly(data, "large")


async def test_strictly_a_blob_of_a_users_own_that_is_not_sealed_is_refused():
    data = MemoryData()
    async with hf.App("shop", home=lambda: opened_on(data)) as app:
        blob = await app.blobs.put(CARD.encode())
    async with hf.App("shop", home=lambda: opened_on(data), seal=hf.SealedOnly(Cipher(b"key"))) as app:
        with pytest.raises(StoreUnusable, match="not sealed"):
            await drained(app, blob)
        assert await app.blobs.put(CARD.encode()) == blob
        assert await drained(app, blob) == CARD.encode()


async def drained(app: hf.App, blob: hf.Blob) -> bytes:
    return b"".join([piece async for piece in app.blobs.read(blob)])
