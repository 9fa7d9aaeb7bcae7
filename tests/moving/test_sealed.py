"""Exports that are sealed, homes that are sealed anew, and a folder in which somebody else has left something."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.coordination.sealing.secrets_kept import CARD, LARGE_CARD, Cipher, Paid, found_in, use_everything
from tests.moving.places import Clock, Memory, Sqlite, opened

import holdfast as hf
from holdfast.coordination.sealing import Envelope, envelope_for
from holdfast.errors import InvalidInput, InvalidState, StoreUnusable
from holdfast.finder import Sought
from holdfast.items import HEAD, Item, Put
from holdfast.moving import export_home, import_home, seal_home
from holdfast.moving.inventory import everything
from holdfast.moving.reading import Filed
from holdfast.moving.records import ItemRecord
from holdfast.ports import Store

ENVELOPE = Envelope(Cipher(b"key"))


async def exported(folder: Path, name: str = "file", *bodies: bytes) -> Path:
    """A sealed file of a home in the open."""
    async with opened(Memory()) as home:
        for number, body in enumerate(bodies or (CARD.encode(), b"2", b"3")):
            await home.store.write(Put(Item(f"partition {number}", body=body)))
        await export_home(home, folder / name, Clock(), envelope=ENVELOPE)
    return folder / name


async def carried(path: Path, envelope: Envelope | None = ENVELOPE) -> list[bytes]:
    async with opened(Memory()) as home:
        await import_home(home, path, Clock(), envelope=envelope)
        return [item.body async for item in everything(home)]


# ── Sealed files ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_nothing_can_be_read_in_a_sealed_file(tmp_path):
    path = await exported(tmp_path)
    data = path.read_bytes()
    assert not found_in(data)
    assert b"partition" not in data
    assert await carried(path) == [CARD.encode(), b"2", b"3"]


@pytest.mark.parametrize("envelope", [None, Envelope(Cipher(b"another"))])
async def test_a_sealed_file_needs_its_seal(tmp_path, envelope):
    path = await exported(tmp_path)
    with pytest.raises(InvalidInput, match="seal"):
        await carried(path, envelope)


async def test_a_sealed_home_moves_with_and_without_its_seal(tmp_path):
    source = Sqlite(tmp_path / "a.db")
    async with hf.App("shop", home=source.home, seal=Cipher(b"key")) as app:
        await app.document(Paid, "small").create(Paid(CARD))
        await app.document(Paid, "large").create(Paid(LARGE_CARD))
        blob = await app.blobs.put(LARGE_CARD.encode())
    for number, envelope in enumerate((None, ENVELOPE)):
        target, path = Sqlite(tmp_path / f"to{number}.db"), tmp_path / f"file{number}"
        async with opened(source) as old, opened(target) as new:
            moved = await export_home(old, path, Clock(), envelope=envelope)
            assert (moved.counts.blobs, moved.left_behind) == (2, ())
            await import_home(new, path, Clock(), envelope=envelope)
        assert not found_in(path.read_bytes())
        async with hf.App("shop", home=target.home, seal=hf.SealedOnly(Cipher(b"key"))) as app:
            assert (await app.document(Paid, "small").get()).value == Paid(CARD)
            assert (await app.document(Paid, "large").get()).value == Paid(LARGE_CARD)
            assert b"".join([piece async for piece in app.blobs.read(blob)]) == LARGE_CARD.encode()


def in_the_open(_mine: list[bytes], _yours: list[bytes]) -> list[bytes]:
    """A record that was never sealed, in the place of one that was."""
    record = msgspec.json.encode(
        {"kind": "sealed", "data": msgspec.json.encode(ItemRecord("partition 0", body=b"evil"))}
    )
    return [*_mine[:2], record + b"\n", *_mine[3:]]


FORGERIES = {
    "two lines in another order": (lambda mine, yours: [*mine[:2], mine[3], mine[2], *mine[4:]], "line 3.*unseal"),
    "a line of another file": (lambda mine, yours: [*mine[:2], yours[2], *mine[3:]], "line 3.*unseal"),
    "a line less": (lambda mine, yours: [*mine[:3], *mine[4:]], "line 4.*unseal"),
    "a line twice": (lambda mine, yours: [*mine[:3], mine[2], *mine[3:]], "line 4.*unseal"),
    "cut off": (lambda mine, yours: mine[:-1], "is cut off"),
    "the header of another file": (lambda mine, yours: [yours[0], *mine[1:]], "line 2.*unseal"),
    "the salt of another file": (lambda mine, yours: [mine[0], yours[1], *mine[2:]], "line 2.*unseal"),
    "a record in the open": (in_the_open, "line 3.*is not sealed"),
}
"""How a file is changed, and which line is the first that tells."""


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_sealed_file_that_was_changed_is_refused(tmp_path, forgery):
    mine, yours = await exported(tmp_path), await exported(tmp_path, "yours", b"a", b"b", b"c")
    forge, told = FORGERIES[forgery]
    mine.write_bytes(b"".join(forge(mine.read_bytes().splitlines(True), yours.read_bytes().splitlines(True))))
    with pytest.raises(InvalidInput, match=told):
        await carried(mine)


async def test_strictly_a_file_in_the_open_is_refused(tmp_path):
    async with opened(Memory()) as home:
        await home.store.write(Put(Item("p", body=b"planted")))
        await export_home(home, tmp_path / "file", Clock())
    assert await carried(tmp_path / "file") == [b"planted"]
    with pytest.raises(StoreUnusable, match="not sealed"):
        await carried(tmp_path / "file", envelope_for(hf.SealedOnly(Cipher(b"key"))))


# ── A home that is sealed anew ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_home_that_was_used_before_it_was_sealed_holds_nothing_in_the_open_after_a_move(tmp_path):
    before, after = Sqlite(tmp_path / "a.db"), Sqlite(tmp_path / "new" / "b.db")
    app = hf.App("shop", home=before.home)
    await use_everything(app)
    async with app:
        blob = await app.blobs.put(LARGE_CARD.encode())
    strict = hf.SealedOnly(Cipher(b"key"))
    async with hf.App("shop", home=before.home, seal=strict) as app:
        with pytest.raises(StoreUnusable, match="holdfast seal"):
            await app.document(Paid, "d").get()
    async with opened(before) as old, opened(after) as new:
        sealed = await seal_home(old, envelope_for(strict))
        assert sealed.left_behind == ()
        assert sealed.counts.items > 10
        assert sealed.counts.blobs == 1
        await export_home(old, tmp_path / "file", envelope=envelope_for(strict))
        await import_home(new, tmp_path / "file", envelope=envelope_for(strict))
        files = [path.read_bytes() for path in (tmp_path / "new").iterdir() if path.is_file()]
        assert not found_in(b"".join(files))
    assert not found_in((tmp_path / "file").read_bytes())
    app = hf.App("shop", home=after.home, seal=strict)

    @app.workflow
    async def pay(card: str) -> list[str]:
        raise AssertionError(card)

    async with app:
        assert (await app.document(Paid, "d").get()).value == Paid(CARD)
        assert (await pay.handle("p"))[0] == CARD
        assert (await pay.handle("large"))[0] == LARGE_CARD
        assert b"".join([piece async for piece in app.blobs.read(blob)]) == LARGE_CARD.encode()


class Keys:
    """The first key seals; all of them unseal."""

    def __init__(self, *keys: bytes) -> None:
        self._ciphers = [Cipher(key) for key in keys]

    def seal(self, data: bytes, place: bytes) -> bytes:
        return self._ciphers[0].seal(data, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        for cipher in self._ciphers:
            try:
                return cipher.unseal(sealed, place)
            except ValueError:
                continue
        raise ValueError("no key of ours")


async def test_after_it_was_sealed_anew_an_old_key_is_not_needed(tmp_path):
    place = Sqlite(tmp_path / "a.db")
    async with hf.App("shop", home=place.home, seal=Keys(b"old")) as app:
        await app.document(Paid, "small").create(Paid(CARD))
        await app.document(Paid, "large").create(Paid(LARGE_CARD))
    async with opened(place) as home:
        for _ in range(2):
            assert (await seal_home(home, Envelope(Keys(b"new", b"old")))).counts.items == 2
    async with hf.App("shop", home=place.home, seal=hf.SealedOnly(Keys(b"new"))) as app:
        assert (await app.document(Paid, "small").get()).value == Paid(CARD)
        assert (await app.document(Paid, "large").get()).value == Paid(LARGE_CARD)


async def test_no_index_keeps_a_tag_of_a_home_that_was_sealed(tmp_path):
    place = Sqlite(tmp_path / "a.db")
    app = hf.App("shop", home=place.home)

    @app.workflow
    async def pay() -> None: ...

    async with app:
        await pay.start(id="1", tags={"card": CARD})
        assert len((await app.executions(tags={"card": CARD})).executions) == 1
    async with opened(place) as home:
        await seal_home(home, ENVELOPE)
        assert home.finder is not None
        assert (await home.finder.find("wf#", Sought({"card": CARD}))).names == ()


async def test_what_does_not_open_stays_and_is_named(tmp_path):
    place = Sqlite(tmp_path / "a.db")
    async with hf.App("shop", home=place.home, seal=Keys(b"lost")) as app:
        await app.document(Paid, "d").create(Paid(CARD))
    async with opened(place) as home:
        before = [item async for item in everything(home)]
        sealed = await seal_home(home, ENVELOPE)
        assert [item async for item in everything(home)] == before
    assert len(sealed.left_behind) == 1
    assert "does not unseal" in sealed.left_behind[0]


async def test_a_home_that_is_open_elsewhere_is_not_sealed(tmp_path):
    place = Sqlite(tmp_path / "a.db")
    async with opened(place) as home, opened(place):
        await home.store.write(Put(Item("p", body=b"1")))
        with pytest.raises(InvalidState, match="Stop every worker"):
            await seal_home(home, ENVELOPE)
        assert await home.store.get("p") == Item("p", body=b"1")


class Changing:
    """A store in which somebody changes an item as soon as it was read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        found = await self._store.get(partition, sort)
        await self._store.write(Put(Item(partition, sort, revision=7, body=b"newer")))
        return found


async def test_what_is_changed_while_it_is_sealed_is_not_overwritten():
    async with opened(Memory()) as home:
        await home.store.write(Put(Item("p", body=b"older")))
        with pytest.raises(InvalidState, match="was changed while its home was sealed"):
            await seal_home(replace(home, store=Changing(home.store)), ENVELOPE)
        assert await home.store.get("p") == Item("p", revision=7, body=b"newer")


# ── A folder in which somebody else has left something ──────────────────────────────────────────────────────────────


async def export_into(path: Path) -> None:
    async with opened(Memory()) as home:
        await home.store.write(Put(Item("p", body=b"1")))
        await export_home(home, path, Clock())


@pytest.mark.parametrize("planted", ["shop.jsonl", "shop.jsonl.part"])
@pytest.mark.parametrize("aim", ["victim", "not there yet"])
async def test_an_export_writes_through_no_link_that_was_left_for_it(tmp_path, planted, aim):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / planted).symlink_to(tmp_path / aim)
    if planted == "shop.jsonl":
        with pytest.raises(InvalidState, match="exists already"):
            await export_into(tmp_path / "shop.jsonl")
    else:
        await export_into(tmp_path / "shop.jsonl")
        assert Filed(tmp_path / "shop.jsonl").verify().counts.items == 1
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "not there yet").exists()


@pytest.mark.parametrize("left", ["a link", "a file"])
async def test_an_export_takes_no_file_for_its_own_whose_name_was_guessed(tmp_path, monkeypatch, left):
    monkeypatch.setattr("holdfast.moving.writing.ids.new_id", lambda: "0" * 32)
    (tmp_path / "victim").write_text("precious")
    guessed = tmp_path / f"shop.jsonl.{'0' * 12}.part"
    guessed.symlink_to("victim") if left == "a link" else guessed.write_text("precious")
    with pytest.raises(InvalidInput, match="cannot be written: File exists"):
        await export_into(tmp_path / "shop.jsonl")
    assert guessed.read_text() == (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("links", [True, False])
async def test_what_is_put_in_the_place_of_a_file_while_it_is_written_is_not_overwritten(tmp_path, monkeypatch, links):
    """Also where the file system has no links."""
    path = tmp_path / "shop.jsonl"

    def planting(descriptor: int) -> None:
        if not os.path.lexists(path):
            path.symlink_to(tmp_path / "nowhere")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("holdfast.moving.writing.os.fsync", planting)
    if not links:
        monkeypatch.setattr("holdfast.moving.writing.os.link", refused)
    with pytest.raises(InvalidState, match="exists already"):
        await export_into(path)
    assert path.is_symlink()
    assert [each.name for each in tmp_path.iterdir()] == ["shop.jsonl"]


async def test_where_there_are_no_links_a_file_gets_its_name_too(tmp_path, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("holdfast.moving.writing.os.link", refused)
    await export_into(tmp_path / "shop.jsonl")
    assert Filed(tmp_path / "shop.jsonl").verify().counts.items == 1
    assert (tmp_path / "shop.jsonl").stat().st_mode & 0o777 == 0o600
