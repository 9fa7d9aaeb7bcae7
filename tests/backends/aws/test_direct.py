"""The client of DynamoDB's JSON protocol: next to botocore, where both do the same, and on a bad server."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import ssl
import subprocess
import sys
import warnings
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import uvloop
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.backends.aws import hostile

from holdfast.backends.aws.connection import AnswerCut
from holdfast.backends.aws.direct import DirectConnection
from holdfast.backends.aws.direct.answers import AnswerReader
from holdfast.backends.aws.direct.authorities import trusted
from holdfast.backends.aws.direct.lines import NotSent
from holdfast.backends.aws.direct.messages import DYNAMODB, SQS, Refused, Service
from holdfast.backends.aws.direct.signing import Keys, Signer
from holdfast.backends.aws.direct.surroundings import Place, look_around
from holdfast.backends.aws.failures import AnswerLost, NotApplied, explained
from holdfast.backends.aws.tries import MISSING_QUEUE, code_of
from holdfast.clock import moment
from holdfast.errors import ConfigurationError
from holdfast.testing.hostile.wire import Message, Messages

KEYS = Keys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TEMPORARY = Keys("ASIAEXAMPLE", "secret", "a/token+of=a/session==")
NOW_MS = 1_764_349_200_123


class Clock:
    """It stands still."""

    def now_ms(self) -> int:
        return NOW_MS


GET = {"TableName": "shop-holdfast", "Key": {"p": {"S": "p"}, "s": {"S": "@"}}}
ITEM = b'{"Item":{"p":{"S":"p"},"b":{"B":"aGk="},"d":{"N":"7"}},"ConsumedCapacity":{"CapacityUnits":0.5}}'
FOUND = {
    "Item": {"p": {"S": "p"}, "b": {"B": b"hi"}, "d": {"N": "7"}},
    "ConsumedCapacity": {"CapacityUnits": 0.5},
}


def http(body: bytes = ITEM, status: str = "200 OK", *headers: str) -> bytes:
    told = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", f"x-amz-crc32: {zlib.crc32(body)}", *headers]
    return "\r\n".join([*told, "", ""]).encode() + body


def refusal(code: str, **more: Any) -> bytes:
    return json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "told", **more}).encode()


class Server:
    """Answers each request with what is next, and then with ``ITEM``."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[Message] = []
        self.connections: list[asyncio.StreamWriter] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        messages = Messages()
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                for message in messages.feed(data):
                    self.requests.append(message)
                    writer.write(self.answers.pop(0) if self.answers else http())
        writer.close()


Open = Callable[..., Awaitable[DirectConnection]]


@asynccontextmanager
async def served(
    *answers: bytes, keys: Any = KEYS, service: Service = DYNAMODB, **options: Any
) -> AsyncIterator[tuple[DirectConnection, Server]]:
    server = Server(*answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=options.pop("tls", None))
    port = listening.sockets[0].getsockname()[1]
    place = Place("eu-west-1", options.pop("scheme", "http"), options.pop("host", "127.0.0.1"), port, **options)
    connection = DirectConnection("eu-west-1", None, service, found=(place, keys), clock=Clock())
    try:
        yield connection, server
    finally:
        connection.close()
        listening.close()
        for writer in server.connections:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        await listening.wait_closed()


# ── Signatures ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("keys", [KEYS, TEMPORARY])
@pytest.mark.parametrize("host", ["dynamodb.eu-west-1.amazonaws.com", "127.0.0.1:8000"])
def test_a_request_is_signed_as_botocore_signs_it(keys: Keys, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = '{"TableName":"shop-holdfast","Key":{"p":{"S":"größer"}}}'.encode()
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment(NOW_MS).replace(tzinfo=None))
    ours = Signer("dynamodb", "eu-west-1", host).headers(keys, "DynamoDB_20120810.GetItem", body, NOW_MS)
    request = AWSRequest("POST", f"https://{host}/", data=body)
    request.headers["Content-Type"] = "application/x-amz-json-1.0"
    request.headers["X-Amz-Target"] = "DynamoDB_20120810.GetItem"
    SigV4Auth(Credentials(keys.id, keys.secret, keys.token), "dynamodb", "eu-west-1").add_auth(request)
    assert f"authorization:{request.headers['Authorization']}\r\n" in ours
    assert f"x-amz-date:{request.headers['X-Amz-Date']}\r\n" in ours


async def test_credentials_are_renewed_by_botocore_before_they_expire() -> None:
    class Held:
        """As botocore's ``RefreshableCredentials``."""

        renewed = 0

        def refresh_needed(self) -> bool:
            return self.renewed < len(server.requests) // 2 + 1

        def get_frozen_credentials(self) -> Any:
            self.renewed += self.refresh_needed()
            return Credentials(f"ID{self.renewed}", "secret", "token").get_frozen_credentials()

    async with served(keys=Held()) as (connection, server):
        for _ in range(4):
            assert await connection.send("GetItem", GET) == FOUND
    ids = [each.headers[b"authorization"].split(b"Credential=")[1].split(b"/")[0] for each in server.requests]
    assert ids == [b"ID1", b"ID1", b"ID2", b"ID2"]
    assert {each.headers[b"x-amz-security-token"] for each in server.requests} == {b"token"}
    assert len(server.connections) == 1, "it is kept"


async def test_the_clock_of_the_service_counts_if_ours_is_wrong() -> None:
    there = moment(NOW_MS + 3_600_000)
    late = http(refusal("InvalidSignatureException"), "400 Bad", f"Date: {format_datetime(there, usegmt=True)}")
    async with served(late, http(), late) as (connection, server):
        with pytest.raises(NotSent, match="differs by 3600 seconds") as skewed:
            await connection.send("GetItem", GET)
        assert isinstance(explained(skewed.value, "t"), NotApplied), "it is sent again"
        assert await connection.send("GetItem", GET) == FOUND
        with pytest.raises(Refused, match="InvalidSignature"):
            await connection.send("GetItem", GET)  # the clock is right now: it is the signature
    assert [each.headers[b"x-amz-date"] for each in server.requests[:2]] == [b"20251128T170000Z", b"20251128T180000Z"]


# ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

WHOLE = http(ITEM)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n"
BROKEN = {
    "another checksum": http().replace(b'"hi"', b'"ho"').replace(b"aGk=", b"aGo="),
    "no length": b"HTTP/1.1 200 OK\r\nDate: now\r\n\r\n{}",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "an enormous length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "an interim answer": b"HTTP/1.1 100 Continue\r\n\r\n",
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    "a wrong chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
    "another encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("answer", [WHOLE, CHUNKED])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_an_answer_is_read_however_it_is_cut_into_pieces(answer: bytes, size: int) -> None:
    reader = AnswerReader()
    parts = [reader.feed(answer[start : start + size]) for start in range(0, len(answer), size)]
    assert parts[:-1] == [None] * (len(parts) - 1)
    assert parts[-1] is not None
    assert (parts[-1].status, parts[-1].body, parts[-1].keeps) == (200, ITEM if answer is WHOLE else b"hello!", True)


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_no_whole_answer_is_a_lost_one(what: str) -> None:
    async with served(BROKEN[what]) as (connection, server):
        with pytest.raises(AnswerCut) as cut:
            await connection.send("GetItem", GET)
        assert isinstance(explained(cut.value, "t"), AnswerLost)
        assert await connection.send("GetItem", GET) == FOUND
    assert len(server.connections) == 2, "the first one is not used again"


async def test_an_answer_that_ends_anywhere_is_lost() -> None:
    async with served() as (connection, server):
        for end in (0, 1, 9, WHOLE.index(b"\r\n\r\n") + 4, len(WHOLE) - 1):
            server.answers = [WHOLE[:end]]
            ended = asyncio.ensure_future(connection.send("GetItem", GET))
            while server.answers:
                await asyncio.sleep(0)
            server.connections[-1].close()
            with pytest.raises(AnswerCut):
                await ended
        assert await connection.send("GetItem", GET) == FOUND


async def test_an_answer_without_json_is_lost_and_an_error_without_it_has_its_status() -> None:
    async with served(http(b"<html>"), http(b"<html>", "503 Slow")) as (connection, _):
        with pytest.raises(AnswerCut, match="cannot be read"):
            await connection.send("GetItem", GET)
        with pytest.raises(Refused) as refused:
            await connection.send("GetItem", GET)
    assert isinstance(explained(refused.value, "t"), AnswerLost)


async def test_a_refusal_looks_as_botocores_does() -> None:
    item = {"p": {"S": "p"}, "n": {"B": base64.b64encode(b"nonce").decode()}}
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "no", "Item": item}]
    answers = (
        http(refusal("ConditionalCheckFailedException", Item=item), "400 Bad"),
        http(refusal("TransactionCanceledException", CancellationReasons=reasons), "400 Bad"),
    )
    async with served(*answers) as (connection, _):
        responses = []
        for operation in ("PutItem", "TransactWriteItems"):
            with pytest.raises(Refused) as refused:
                await connection.send(operation, {})
            responses.append(refused.value.response)
    assert responses[0] == {
        "Error": {"Code": "ConditionalCheckFailedException", "Message": "told"},
        "ResponseMetadata": {"HTTPStatusCode": 400},
        "Item": {"p": {"S": "p"}, "n": {"B": b"nonce"}},
    }
    assert responses[1]["CancellationReasons"][1]["Item"]["n"] == {"B": b"nonce"}
    assert responses[1]["CancellationReasons"][0] == {"Code": "None"}


async def test_sqs_is_asked_in_the_same_way_and_a_missing_queue_is_known_by_its_code() -> None:
    sent = {"Successful": [{"Id": "0", "MessageId": "m"}], "Failed": [{"Id": "1", "Code": "x", "SenderFault": True}]}
    missing = json.dumps({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no"}).encode()
    async with served(http(json.dumps(sent).encode()), http(missing, "400 Bad"), service=SQS) as (connection, server):
        assert await connection.send("SendMessageBatch", {"QueueUrl": "q", "Entries": []}) == sent
        with pytest.raises(Refused) as refused:
            await connection.send("GetQueueUrl", {"QueueName": "q"})
    assert code_of(refused.value) in MISSING_QUEUE
    assert server.requests[0].headers[b"x-amz-target"] == b"AmazonSQS.SendMessageBatch"
    assert b"/eu-west-1/sqs/aws4_request" in server.requests[0].headers[b"authorization"]


# ── Connections ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_the_service_has_closed_is_not_used(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(check_closed_connections())


async def check_closed_connections() -> None:
    async with served() as (connection, server):
        assert await connection.send("GetItem", GET) == FOUND
        server.connections[0].close()
        await server.connections[0].wait_closed()
        assert await connection.send("GetItem", GET) == FOUND
        server.answers = [http(ITEM, "200 OK", "Connection: close")]
        assert [await connection.send("GetItem", GET) for _ in range(2)] == [FOUND] * 2
    assert len(server.connections) == 3


@pytest.mark.aws
def test_a_connection_that_nobody_closes_ends_with_its_loop() -> None:
    async def main() -> DirectConnection:
        connection = hostile.connection(hostile.EXACT)
        with pytest.raises(Refused):
            await connection.send("GetItem", GET | {"TableName": "there-is-none"})
        return connection

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        asyncio.run(main()).close()
        gc.collect()


async def test_a_request_whose_caller_goes_away_takes_its_connection_with_it() -> None:
    async with served() as (connection, server):
        asked = asyncio.ensure_future(connection.send("GetItem", GET))
        while not server.requests:
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert await connection.send("GetItem", GET) == FOUND, "and not the answer to the first"
    assert len(server.connections) == 2


async def test_where_nobody_listens_nothing_was_sent() -> None:
    place = Place("eu-west-1", "http", "127.0.0.1", 1)
    connection = DirectConnection("eu-west-1", None, found=(place, KEYS))
    with pytest.raises(NotSent) as refused:
        await connection.send("GetItem", GET)
    assert isinstance(explained(refused.value, "t"), NotApplied)
    connection.close()


@pytest.fixture
def certified(tmp_path: Path) -> tuple[Path, Path]:
    """A key, and the certificate of ``localhost`` for it, signed by itself."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *words.split(), *more], check=True, capture_output=True)
    return key, certificate


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_only_a_certificate_of_a_known_authority_for_this_name_is_taken(
    certified: tuple[Path, Path], loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(check_certificates(*certified))


async def check_certificates(key: Path, certificate: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    known = str(certificate)
    async with served(tls=tls, scheme="https", host="localhost", authorities=known) as (connection, _):
        assert await connection.send("GetItem", GET) == FOUND
        assert await connection.send("GetItem", GET) == FOUND
    for host, authorities in (("127.0.0.1", known), ("localhost", None)):
        async with served(tls=tls, scheme="https", host=host, authorities=authorities) as (connection, server):
            with pytest.raises(NotSent, match="CERTIFICATE_VERIFY_FAILED"):
                await connection.send("GetItem", GET)
            assert not server.requests
    with pytest.raises(ConfigurationError, match="AWS_CA_BUNDLE"):
        trusted(str(key.with_name("none.pem")))


# ── Surroundings ────────────────────────────────────────────────────────────────────────────────────────────────────

FUNCTION = {"AWS_ACCESS_KEY_ID": "ID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-west-1"}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home folder without profiles, and no proxy."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.mark.usefixtures("bare")
def test_a_function_has_all_that_is_needed_in_its_variables() -> None:
    token = {"AWS_SESSION_TOKEN": "token"}
    host = "dynamodb.eu-west-1.amazonaws.com"
    assert look_around(None, None, "dynamodb", FUNCTION) == (
        Place("eu-west-1", "https", host, 443),
        Keys("ID", "secret"),
    )
    place, keys = look_around("us-east-2", None, "dynamodb", FUNCTION | token | {"AWS_CA_BUNDLE": "file"}) or (
        None,
        None,
    )
    assert place == Place("us-east-2", "https", "dynamodb.us-east-2.amazonaws.com", 443, "file")
    assert keys == Keys("ID", "secret", "token")
    there = look_around("any", "http://127.0.0.1:8000/", "sqs", FUNCTION)
    assert there is not None
    assert there[0].header == "127.0.0.1:8000"


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    "unusual",
    [
        {"AWS_PROFILE": "work"},
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1"},
        {"AWS_CREDENTIAL_EXPIRATION": "2026-11-28T18:00:00Z"},
        {"AWS_SECRET_ACCESS_KEY": ""},
        {"AWS_SESSION_TOKEN": "of two\r\nlines"},
        {"AWS_DEFAULT_REGION": "cn-north-1"},
        {"AWS_DEFAULT_REGION": ""},
    ],
)
def test_botocore_is_asked_about_anything_unusual(unusual: dict[str, str]) -> None:
    assert look_around(None, None, "dynamodb", FUNCTION | unusual) is None


@pytest.mark.usefixtures("bare")
def test_behind_a_proxy_and_beside_a_profile_botocore_does_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:3128")
    assert look_around(None, None, "dynamodb", FUNCTION) is not None, "NO_PROXY says so"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert look_around(None, None, "dynamodb", FUNCTION) is None
    monkeypatch.delenv("HTTPS_PROXY")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").touch()
    assert look_around(None, None, "dynamodb", FUNCTION) is None


def test_botocore_says_where_and_with_whose_credentials(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        "[profile work]\nregion = eu-central-1\nuse_fips_endpoint = true\nca_bundle = /a/file\n"
        "aws_access_key_id = FROM\naws_secret_access_key = profile\n"
    )
    code = """
from holdfast.backends.aws.direct.surroundings import ask_botocore, look_around
assert look_around(None, None, "dynamodb") is None
place, credentials = ask_botocore(None, None, "dynamodb")
frozen = credentials.get_frozen_credentials()
print(place.region, place.header, place.authorities, frozen.access_key, frozen.secret_key)
"""
    environ = {"HOME": str(tmp_path), "AWS_PROFILE": "work", "PYTHONPATH": ":".join(sys.path)}
    told = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True).stdout
    assert told.split() == ["eu-central-1", "dynamodb-fips.eu-central-1.amazonaws.com", "/a/file", "FROM", "profile"]
