"""Blobs on S3, by way of ministack: conditional puts, grace begun anew, reads in pieces, faults at the transport."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.backends.aws.faults import S3_FAULTS, FaultyConnection, sometimes, then_none

import holdfast as hf
from holdfast.backends.aws import S3Blobs, Usage
from holdfast.backends.aws.blobs import KEPT_MS, PIECE_BYTES
from holdfast.errors import StoreUnavailable, StoreUnusable

OpenBlobs = Callable[..., S3Blobs]
DAY_MS = 24 * 3600 * 1000


def tomorrow() -> int:
    return int(time.time() * 1000) + DAY_MS


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def put(blobs: S3Blobs, data: bytes, keep_until: int | None = None) -> str:
    await blobs.put(digest_of(data), data, tomorrow() if keep_until is None else keep_until)
    return digest_of(data)


async def read(blobs: S3Blobs, digest: str) -> list[bytes]:
    return [piece async for piece in blobs.read(digest)]


def requests(blobs: S3Blobs) -> dict[str, int]:
    return {operation: usage.requests for operation, usage in blobs.meter.usage.items()}


@pytest.mark.parametrize("size", [1, 100, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES + 5])
async def test_a_blob_comes_back_in_pieces_each_of_which_is_a_request(size: int, open_blobs: OpenBlobs) -> None:
    blobs, data = open_blobs(), Random(size).randbytes(size)
    digest = await put(blobs, data)
    pieces = await read(blobs, digest)
    assert b"".join(pieces) == data
    assert len(pieces) == -(-size // PIECE_BYTES)
    assert requests(blobs) == {"PutObject": 1, "GetObject": len(pieces)}
    blobs.close()


async def test_what_is_not_there_has_no_pieces_and_an_empty_blob_has_none_either(open_blobs: OpenBlobs) -> None:
    blobs = open_blobs()
    assert await read(blobs, digest_of(b"nothing")) == []
    assert b"".join(await read(blobs, await put(blobs, b""))) == b""
    blobs.close()


async def test_the_same_again_is_looked_at_and_put_anew_only_if_it_would_not_stay(
    open_blobs: OpenBlobs, s3_client: Any, bucket: str
) -> None:
    blobs = open_blobs()

    def tag() -> str:
        return s3_client.head_object(Bucket=bucket, Key=f"shop/{digest_of(b'x')}")["ETag"]

    await put(blobs, b"x")
    first = tag()
    await put(blobs, b"x")
    assert requests(blobs) == {"PutObject": 2, "HeadObject": 1}
    assert tag() == first
    await put(blobs, b"x", tomorrow() + KEPT_MS)  # as if it had been stored more than a day ago
    assert requests(blobs) == {"PutObject": 4, "HeadObject": 2}
    assert tag() != first
    assert b"".join(await read(blobs, digest_of(b"x"))) == b"x"
    blobs.close()


async def test_a_deletion_that_was_decided_before_it_was_stored_anew_is_refused(
    open_blobs: OpenBlobs, s3_client: Any, bucket: str
) -> None:
    blobs = open_blobs()
    key = f"shop/{await put(blobs, b'x')}"
    decided = s3_client.head_object(Bucket=bucket, Key=key)["ETag"]
    await put(blobs, b"x", tomorrow() + KEPT_MS)
    with pytest.raises(Exception, match="PreconditionFailed"):
        s3_client.delete_object(Bucket=bucket, Key=key, IfMatch=decided)
    assert await read(blobs, digest_of(b"x")) == [b"x"]
    blobs.close()


async def test_one_that_was_damaged_is_put_anew(open_blobs: OpenBlobs, s3_client: Any, bucket: str) -> None:
    blobs = open_blobs()
    s3_client.put_object(Bucket=bucket, Key=f"shop/{digest_of(b'x' * 100)}", Body=b"cut off")
    assert await read(blobs, await put(blobs, b"x" * 100)) == [b"x" * 100]
    blobs.close()


async def test_one_that_is_collected_between_two_requests_is_put_after_all(
    open_blobs: OpenBlobs, s3_client: Any, bucket: str
) -> None:
    class Collected(FaultyConnection):
        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            if operation == "HeadObject" and not self.suffered["collected"]:
                self.suffered["collected"] += 1
                s3_client.delete_object(Bucket=bucket, Key=parameters["Key"])
            return await super().send(operation, parameters)

    blobs = open_blobs(lambda connection: Collected(connection, then_none()))
    await put(blobs, b"x")
    await put(blobs, b"x")
    assert requests(blobs) == {"PutObject": 3, "HeadObject": 1}
    assert await read(blobs, digest_of(b"x")) == [b"x"]
    blobs.close()


async def test_one_that_is_stored_anew_while_it_is_read_is_never_mixed(open_blobs: OpenBlobs) -> None:
    blobs, data = open_blobs(), Random(1).randbytes(PIECE_BYTES + 1)
    digest = await put(blobs, data)
    pieces = blobs.read(digest)
    assert len(await anext(pieces)) == PIECE_BYTES
    await put(blobs, data, tomorrow() + KEPT_MS)
    with pytest.raises(StoreUnavailable, match="stored again"):
        await anext(pieces)
    blobs.close()


@pytest.mark.parametrize("fault", S3_FAULTS)
async def test_a_fault_of_each_kind_is_sat_out(fault: str, open_blobs: OpenBlobs) -> None:
    faulty: list[FaultyConnection] = []

    def wrap(connection: Any) -> FaultyConnection:
        faulty.append(FaultyConnection(connection, then_none(fault, None, fault, None)))
        return faulty[0]

    blobs = open_blobs(wrap)
    assert await read(blobs, await put(blobs, b"x" * 100)) == [b"x" * 100]
    assert faulty[0].suffered[fault] == 2
    assert blobs.meter.total.requests == len(faulty[0].attempts)
    blobs.close()


async def test_many_blobs_through_many_faults(open_blobs: OpenBlobs) -> None:
    faulty: list[FaultyConnection] = []

    def wrap(connection: Any) -> FaultyConnection:
        faulty.append(FaultyConnection(connection, sometimes(5, 0.3, S3_FAULTS)))
        return faulty[0]

    blobs = open_blobs(wrap)
    for n in range(60):
        data = Random(n % 20).randbytes(200)
        assert await read(blobs, await put(blobs, data, tomorrow() + KEPT_MS * (n % 3 == 2))) == [data]
    assert all(faulty[0].suffered[fault] >= 3 for fault in S3_FAULTS), faulty[0].suffered
    blobs.close()


async def test_who_gets_no_answer_hears_so_and_other_errors_say_what_to_do(open_blobs: OpenBlobs) -> None:
    silent = open_blobs(lambda c: FaultyConnection(c, lambda _operation: "connection reset"), patience_seconds=0.2)
    with pytest.raises(StoreUnavailable, match="may or may not"):
        await put(silent, b"x")
    silent.close()
    elsewhere = open_blobs()
    elsewhere.objects.bucket = "there-is-no-such-bucket"
    with pytest.raises(StoreUnusable, match="create it"):
        await put(elsewhere, b"x")
    assert elsewhere.meter.total == Usage(requests=1)
    elsewhere.close()


async def test_large_values_of_a_workflow_go_there(new_url: Any, s3: str, bucket: str, s3_client: Any) -> None:
    app = hf.App("films", home=f"{await new_url()}&bucket={bucket}&s3_endpoint={s3}", limit_bytes=4 * 2**20)

    @app.step
    async def render(seed: int) -> str:
        return Random(seed).randbytes(300_000).hex()

    @app.workflow
    async def premiere(seed: int) -> int:
        film = await render(seed)
        await hf.sleep("10ms")
        return len(film)

    async with app.worker():
        assert await (await premiere.start(1, id="tonight")) == 600_000
    listed = s3_client.list_objects_v2(Bucket=bucket)
    assert [len(each["Key"].partition("/")[2]) for each in listed["Contents"]] == [64]
