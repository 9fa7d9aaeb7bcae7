"""A cipher, a secret, and an app whose every feature is given it as a value."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import zlib
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

import holdfast as hf
from holdfast.ports import SqlCursor

CARD = "the card number is 4111"
LARGE_CARD = CARD + Random(5).randbytes(100_000).hex()
"""Too large for an item, packed too."""


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

    book = _transaction(app) if _is_sqlite(app) else charge

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
        stream = app.streams(Paid, name="payments", ordered=_is_sqlite(app)).at("s")
        await stream.append(Paid(CARD))
        assert [each.event async for each in stream.read()] == [Paid(CARD)]
        blob = await app.blobs.put(LARGE_CARD.encode())
        assert b"".join([piece async for piece in app.blobs.read(blob)]) == LARGE_CARD.encode()
        large = await pay.start(LARGE_CARD, id="large")
        await large.signal("more", "")
        assert (await large)[0] == LARGE_CARD
        while len(heard) < 2:
            await asyncio.sleep(0.005)


def _is_sqlite(app: hf.App) -> bool:
    """Whether the home has what only SQLite has."""
    return app.home_url.startswith("sqlite:")


def _transaction(app: hf.App) -> Any:
    @app.transaction
    def book(cursor: SqlCursor, card: str) -> str:
        cursor.execute("CREATE TABLE IF NOT EXISTS bookings (size INTEGER)")
        cursor.execute("INSERT INTO bookings VALUES (?)", (len(card),))
        return card

    return book


def traces() -> list[bytes]:
    """What would betray the secret: itself, packed too, and the digests of it that something might be named by."""
    large = (LARGE_CARD, f'"{LARGE_CARD}"', f'["{LARGE_CARD}"]')
    texts = (CARD, f'"{CARD}"', f'["{CARD}"]', *large[1:])
    packed = [zlib.compress(text.encode(), 1)[:40] for text in large]
    return [CARD.encode(), *packed, *(hashlib.sha256(text.encode()).hexdigest().encode() for text in texts)]


def found_in(data: bytes) -> list[bytes]:
    """The traces of the secret in what was written somewhere."""
    return [trace for trace in traces() if trace in data]
