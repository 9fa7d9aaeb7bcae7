"""Numbers with one hash are found before a set or a dict of them is built."""

from __future__ import annotations

import json
import random
import time
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest
from tests.http.conftest import read

from holdfast.codec.collisions import MOST_ALIKE, numbers_collide

PRIME = 2**61 - 1
MANY = 8_000


def decimals(count: int) -> list[str]:
    """Numbers with one hash, of which each has another exponent."""
    return [f"{pow(10, -n, PRIME) * 7 % PRIME}e{n}" for n in range(1, count + 1)]


HOSTILE = {
    "whole numbers": [n * PRIME for n in range(16, MANY)],
    "negative ones": [-n * PRIME - 5 for n in range(16, MANY)],
    "UUIDs": [UUID(int=n * PRIME + 3) for n in range(MANY)],
    "UUIDs without dashes": [UUID(int=n * PRIME + 3).hex for n in range(MANY)],
    "decimals": decimals(500),
    "whole numbers as long as a UUID": [n * PRIME for n in range(10**31 // PRIME + 1, 10**31 // PRIME + MANY)],
    "whole numbers longer than a UUID": [n * PRIME for n in range(10**34 // PRIME + 1, 10**34 // PRIME + MANY)],
    "decimals behind zeros": ["0" * 20 + str(n * PRIME) for n in range(1024, 1024 + MANY)],
    "a hundred of each hash": [UUID(int=group + n * PRIME) for group in range(1, 11) for n in range(1024, 1124)],
    "keys": {str(n * PRIME): 1 for n in range(16, MANY)},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_numbers_with_one_hash_are_found(name):
    assert len({hash(Decimal(each)) for each in decimals(200)}) == 1, "the attack is one"
    data = msgspec.json.encode(HOSTILE[name])
    began = time.process_time()
    assert numbers_collide(data)
    assert time.process_time() - began < 1.0


def test_no_notation_hides_them():
    plain = msgspec.json.encode(HOSTILE["UUIDs"]).decode()
    hidden = "".join(f"\\u{ord(each):04x}" if each in "0123456789abcdef-" else each for each in plain)
    assert json.loads(hidden) == json.loads(plain)
    assert numbers_collide(hidden.encode())


@pytest.mark.parametrize("zero", ["\u0660", "\U0001d7ce"])
def test_digits_of_any_script_are_digits(zero):
    other = str.maketrans("0123456789", "".join(chr(ord(zero) + n) for n in range(10)))
    written = [each.translate(other) for each in decimals(500)]
    assert {Decimal(each) for each in written} == {Decimal(each) for each in decimals(500)}
    assert numbers_collide(msgspec.json.encode(written))
    assert numbers_collide(json.dumps(written).encode()), "with escapes"


def test_underscores_hide_no_number():
    written = [f"{each[:8]}_{each[8:]}" for each in decimals(500)]
    assert len({hash(Decimal(each)) for each in written[100:]}) == 1
    assert numbers_collide(msgspec.json.encode(written))


def test_numbers_that_people_send_are_let_pass():
    chance = random.Random(1)
    uuids = [UUID(int=chance.getrandbits(128)) for _ in range(5_000)]
    rows = [
        {"id": each, "of": uuids[0], "at": "2026-11-30T12:00:00.000000Z", "n": n, "f": chance.random()}
        for n, each in enumerate(uuids)
    ]
    assert not numbers_collide(msgspec.json.encode(rows))
    assert not numbers_collide(b"-" * 100_000 + b"1" * 100_000 + b"." * 100_000)


def test_what_is_neither_a_number_nor_a_uuid_is_let_pass():
    assert not numbers_collide(b"[" + b",".join(b'"1.51.51.51.51.51.51.51.5%08d"' % n for n in range(200)) + b"]")


def test_as_many_as_are_taken_are_taken():
    assert not numbers_collide(msgspec.json.encode([n * PRIME for n in range(16, 16 + MOST_ALIKE)] + [" " * 2_000]))


async def test_a_request_with_such_numbers_is_refused_at_once(memory_shop):
    async with memory_shop.working() as api:
        body = msgspec.json.encode({"card": "tok", "cents": HOSTILE["UUIDs"]})
        status, problem = read(await api.send("POST", "/v1/workflows/checkout/a", body))
        assert (status, problem["code"]) == (400, "invalid_input")
        assert "the hash of another one" in problem["detail"]
