"""Sealed homes: nothing that was given as a value can be read in what is stored."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, MemoryStore, open_memory_home
from holdfast.coordination.sealing import Envelope, SealedStore, sealed
from holdfast.errors import Refused, StoreUnusable
from holdfast.items import ABSENT, Item, Put
from holdfast.ports import SqlCursor, Store
from holdfast.testing.conformance import StoreConformance

CARD = "the card number is 4111"


class Cipher:
    """A stream cipher of the kind one must not write oneself, except in a test."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._numbers = itertools.count()
        self.sealed = 0

    def _stream(self, nonce: bytes, size: int) -> bytes:
        blocks = (hashlib.sha256(self._key + nonce + n.to_bytes(8)).digest() for n in range(size // 32 + 1))
        return b"".join(blocks)[:size]

    def seal(self, data: bytes, place: bytes) -> bytes:
        self.sealed += 1
        nonce = next(self._numbers).to_bytes(8)
        hidden = bytes(a ^ b for a, b in zip(data, self._stream(nonce, len(data)), strict=True))
        return nonce + hmac.digest(self._key, nonce + place + hidden, "sha256") + hidden

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        nonce, tag, hidden = sealed[:8], sealed[8:40], sealed[40:]
        if not hmac.compare_digest(tag, hmac.digest(self._key, nonce + place + hidden, "sha256")):
            raise ValueError("not sealed for this place")
        return bytes(a ^ b for a, b in zip(hidden, self._stream(nonce, len(hidden)), strict=True))


class TestSealedStore(StoreConformance):
    """The contract is kept by a store that sees sealed bodies only."""

    async def open_store(self, folder: Path) -> Store:
        return SealedStore(MemoryStore(MemoryData()), Envelope(Cipher(b"key")))


@dataclass
class Paid:
    card: str


async def use_everything(app: hf.App) -> None:
    """Each feature is given the secret as a value, and gives it back."""
    heard = []

    class Wallet(hf.Actor, app=app):
        cards: list[str] = hf.field(default_factory=list)

        async def keep(self, card: str) -> str:
            self.cards.append(card)
            await app.publish(Paid(card))
            return card

        async def fail(self, card: str) -> None:
            raise ValueError(card)

    @app.consumer(Paid)
    async def hear(event: Paid) -> None:
        heard.append(event.card)

    @app.step
    async def charge(card: str) -> str:
        return card

    @app.step(retry=hf.Retry(max_attempts=1))
    async def decline(card: str) -> None:
        raise ValueError(card)

    @app.transaction
    def book(cursor: SqlCursor, card: str) -> str:
        cursor.execute("CREATE TABLE IF NOT EXISTS bookings (size INTEGER)")
        cursor.execute("INSERT INTO bookings VALUES (?)", (len(card),))
        return card

    @app.workflow
    async def pay(card: str) -> list[str]:
        got = [await charge(card), await book(card), await hf.signal("more", str)]
        with pytest.raises(ValueError):
            await decline(card)
        return got

    @app.idempotent(key="id")
    async def once(id: str, card: str) -> str:
        return card

    async with app.worker():
        handle = await pay.start(CARD, id="p", tags={"kind": "card"})
        await handle.signal("more", CARD)
        assert await handle == [CARD] * 3
        assert await Wallet.at("w", request_id="r").keep(CARD) == CARD
        assert await Wallet.at("w", request_id="r").keep(CARD) == CARD
        with pytest.raises(ValueError, match="card number"):
            await Wallet.at("w").fail(CARD)
        assert [await once("1", CARD), await once("1", CARD)] == [CARD] * 2
        document = app.document(Paid, "d")
        await document.create(Paid(CARD))
        assert (await document.get()).value == Paid(CARD)
        async with app.atomic() as tx:
            await tx.get(document)
            tx.put(document, Paid(CARD))
            tx.publish(Paid(CARD))
        stream = app.streams(Paid, name="payments", ordered=True).at("s")
        await stream.append(Paid(CARD))
        assert [each.event async for each in stream.read()] == [Paid(CARD)]
        blob = await app.blobs.put(CARD.encode() * 10_000)
        assert b"".join([piece async for piece in app.blobs.read(blob)]) == CARD.encode() * 10_000
        large = await pay.start(CARD * 10_000, id="large")
        await large.signal("more", "")
        assert (await large)[0] == CARD * 10_000
        while len(heard) < 2:
            await asyncio.sleep(0.005)


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


@pytest.mark.parametrize("is_sealed", [True, False])
async def test_no_value_can_be_read_in_the_file(tmp_path, is_sealed):
    cipher = Cipher(b"key")
    app = hf.App("shop", home=f"sqlite:///{tmp_path}/home.db", seal=cipher if is_sealed else None)
    async with app:  # keeps the log, and so every byte that was ever written, until the end
        await use_everything(app)
        assert (CARD.encode() in stored(tmp_path)) is not is_sealed
    assert (cipher.sealed > 20) is is_sealed


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
    home = sealed(open_memory_home(data=data), Cipher(b"key"))
    await home.store.write(Put(Item("mine", body=b'{"balance":0}'), ABSENT))
    await home.store.write(Put(Item("yours", body=b'{"balance":9}'), ABSENT))
    data.set(Item("mine", body=data.find("yours", "@").body))
    with pytest.raises(StoreUnusable, match="does not unseal"):
        await home.store.get("mine")


async def test_a_refusal_carries_what_was_written():
    home = sealed(open_memory_home(), Cipher(b"key"))
    await home.store.write(Put(Item("p", body=b"1"), ABSENT))
    with pytest.raises(Refused) as refused:
        await home.store.write(Put(Item("p", body=b"2"), ABSENT))
    assert refused.value.item == Item("p", body=b"1")
