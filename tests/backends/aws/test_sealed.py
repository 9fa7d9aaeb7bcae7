"""A sealed home on AWS: no value in any request that leaves the process, to the table or to the bucket."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from tests.backends.aws.test_moving import NewPlace, Table, errors_expected, eventually, new_place, place, reaches
from tests.coordination.sealing.secrets_kept import Cipher, found_in, use_everything

import holdfast as hf

__all__ = ["NewPlace", "errors_expected", "eventually", "new_place", "place", "reaches"]


class Overheard:
    """A connection whose requests are written down, what is compressed in them as it was before."""

    def __init__(self, connection: Any, heard: list[bytes]) -> None:
        self._connection = connection
        self._heard = heard

    async def send(self, operation: str, parameters: dict[str, Any]) -> Any:
        self._heard += pieces(parameters)
        return await self._connection.send(operation, parameters)

    def close(self) -> None:
        self._connection.close()


def pieces(value: Any) -> list[bytes]:
    """Every text and every byte of a request."""
    match value:
        case dict():
            return [piece for name, each in value.items() for piece in (*pieces(name), *pieces(each))]
        case list() | tuple():
            return [piece for each in value for piece in pieces(each)]
        case bytes():
            return [value, *unpacked(value)]
        case _:
            return [str(value).encode()]


def unpacked(data: bytes) -> list[bytes]:
    """What is compressed, as a body is in the table, and behind a stamp in the bucket."""
    found: list[bytes] = []
    for start in (0, 16):
        try:
            found.append(zlib.decompress(data[start:]))
        except zlib.error:
            continue
    return found


@pytest.mark.usefixtures("errors_expected")
@pytest.mark.parametrize("is_sealed", [True, False])
async def test_no_value_leaves_the_process_in_the_open(place: Table, is_sealed: bool) -> None:
    heard: list[bytes] = []
    place.wrap = lambda connection: Overheard(connection, heard)
    app = hf.App("shop", home=place.home, seal=hf.SealedOnly(Cipher(b"key")) if is_sealed else None)
    await use_everything(app)
    assert len(heard) > 100
    assert bool(found_in(b"\n".join(heard))) is not is_sealed
