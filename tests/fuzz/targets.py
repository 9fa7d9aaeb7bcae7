"""What is fed with inputs from outside. A target swallows errors of Holdfast's own tree, and raises no others."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner
from hypothesis import strategies as st
from tests.cli.conftest import SHOP
from tests.fuzz.inputs import BODIES, JSON, VALUES, encoded, mutated, text
from tests.fuzz.served import served
from tests.http.test_lambda_events import DOORS

import holdfast as hf
from holdfast import crontab
from holdfast.backends.aws import parse_address
from holdfast.backends.memory import open_memory_home
from holdfast.cli import main
from holdfast.codec import jsontext
from holdfast.codec.collisions import numbers_collide
from holdfast.codec.typed import codec_for, encode_untyped
from holdfast.duration import checked_wait, milliseconds, seconds
from holdfast.errors import HoldfastError
from holdfast.http.lambda_front import HttpFront
from holdfast.http.messages import header_id
from holdfast.http.network import is_loopback_address, is_loopback_host
from holdfast.http.problems import Problem
from holdfast.http.routes import find
from holdfast.items import ALWAYS, Item, Put
from holdfast.keys import check_id, check_key
from holdfast.moving.export import export_home
from holdfast.moving.reading import Filed
from holdfast.opening import open_home, open_shared
from holdfast.runtime.shapes import message_of, ordered_call_of, recognised
from holdfast.texts import masked
from holdfast.workflows.callback_tokens import make_token, token_scope, verify_token
from holdfast.workflows.record import check_tags, parse_ref

Feed = Callable[[Any], None]


@dataclass(frozen=True)
class Target:
    """Something that takes inputs. ``weight`` is how many of all are for it, in proportion to the others."""

    name: str
    inputs: st.SearchStrategy[Any]
    weight: int
    open: Callable[[Path], AbstractContextManager[Feed]]


def each(*functions: Callable[[Any], Any], expected: tuple[type[Exception], ...] = (HoldfastError,)) -> Any:
    """Feeds an input to functions, one after another."""

    @contextmanager
    def open_functions(_folder: Path) -> Iterator[Feed]:
        def feed(given: Any) -> None:
            for function in functions:
                with suppress(*expected):
                    function(given)

        yield feed

    return open_functions


# ── Codec ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Node(msgspec.Struct):
    name: str
    at: datetime | None = None
    parts: list[Node] = []


HINTS: tuple[Any, ...] = (
    Any,
    int,
    list[float],
    dict[str, int],
    dict[int, Any],
    set[int],
    tuple[int, str],
    Node,
    bytes | None,
)


def decode_all(data: bytes) -> None:
    for hint in HINTS:
        with suppress(HoldfastError):
            codec_for(hint).decode_steady(data)
    jsontext.nests_too_deep(data)
    jsontext.holds_more_values(data, 100)
    numbers_collide(data)


def encode(value: Any) -> None:
    encode_untyped(value, "the value", 1_000_000)


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET = "0" * 48
TOKEN = make_token("wf#parcel#a", 0, "callback#0", SECRET)


def check_token(given: bytes) -> None:
    token = given.decode("utf-8", "surrogateescape")
    masked(token)
    hf.BearerTokens({"till": "7" * 64})(
        hf.Request(method="GET", path="/", headers=(("authorization", f"Bearer {token}"),))
    )
    with suppress(HoldfastError):
        hf.BearerTokens.read(token)
    token_scope(token)
    verify_token(token, SECRET)
    assert token == TOKEN, "it was forged"


# ── URLs and paths ──────────────────────────────────────────────────────────────────────────────────────────────────


def open_url(url: str) -> None:
    scheme = url.partition("://")[0]
    with suppress(HoldfastError):
        parse_address(url)
    with suppress(HoldfastError):
        open_shared(url, "shop")
    if scheme not in {"sqlite", "aws"}:  # those make files, or ask a network
        asyncio.run(open_home(url))


def parse_path(path: str) -> None:
    is_loopback_address(path)
    is_loopback_host(path)
    for parse in (
        lambda: find("GET", path),
        lambda: find("POST", "/v1/workflows/checkout/" + path),
        lambda: check_id("the id", path),
        lambda: check_key("the key", [path, path]),
        lambda: check_tags({path: path}),
        lambda: parse_ref("parent", path),
        lambda: header_id("Message-Id", [path]),
    ):
        with suppress(HoldfastError, Problem):
            parse()


# ── HTTP and Lambda ─────────────────────────────────────────────────────────────────────────────────────────────────

WORDS = (
    "/v1",
    "/workflows",
    "/checkout",
    "/a",
    "/signals",
    "/x",
    "/actors",
    "/Cart",
    "/k",
    "/add",
    "/total",
    "/send",
    "/requests",
    "/events",
    "/Placed",
    "/callbacks",
    f"/{TOKEN}",
    "/fail",
    "/history",
    "/cancel",
    "/health",
)
QUERY = (
    "wait=1ms",
    "&",
    "tag=a=b",
    "limit=1",
    "since=2026-11-30T12:00:00Z",
    "args=[]",
    "delay=1s",
    "after=",
    "parent=a/b",
)
METHODS = st.sampled_from(["GET", "POST", "DELETE", "HEAD", "PUT", "GET", "POST"]) | text()
PATHS = st.lists(st.sampled_from(WORDS), max_size=6).map("".join) | text(*WORDS)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["message-id", "request-id", "idempotency-key", "content-length", "content-encoding", "host"]),
        text("1", '"k"', "gzip"),
    ),
    max_size=3,
)
REQUESTS = st.tuples(METHODS, PATHS, text(*QUERY), HEADERS, BODIES)


@contextmanager
def open_http(_folder: Path) -> Iterator[Feed]:
    with served() as here:

        def feed(given: tuple[str, str, str, list[tuple[str, str]], bytes]) -> None:
            here.ask(*given)

        yield feed


EVENTS = st.builds(
    lambda door, path, query, more: door("POST", path) | {"rawQueryString": query} | more,
    st.sampled_from(list(DOORS)),
    PATHS,
    text(*QUERY),
    st.dictionaries(
        st.sampled_from(
            [
                "body",
                "isBase64Encoded",
                "headers",
                "multiValueHeaders",
                "cookies",
                "path",
                "rawPath",
                "requestContext",
                "queryStringParameters",
                "multiValueQueryStringParameters",
                "version",
                "httpMethod",
                "Records",
                "source",
            ]
        ),
        VALUES,
        max_size=3,
    ),
)
COMMANDS = st.dictionaries(
    st.sampled_from(
        ["holdfast", "Records", "source", "detail", "detail-type", "id", "key", "workflow", "actor", "args"]
    ),
    VALUES
    | st.lists(
        st.dictionaries(st.sampled_from(["eventSource", "messageId", "body", "attributes", "dynamodb"]), VALUES),
        max_size=2,
    ),
    max_size=4,
)


@contextmanager
def open_lambda(_folder: Path) -> Iterator[Feed]:
    with served() as here:
        front = HttpFront(here.app, here.options)

        def feed(event: Any) -> None:
            taken = front.take(event)
            if taken is not None:
                here.check(here.run(taken.answer())["statusCode"])
                return
            with suppress(HoldfastError):
                recognised(event)
            for parse in (message_of, ordered_call_of):
                with suppress(HoldfastError, msgspec.MsgspecError):  # which its caller takes for this message's
                    parse(encoded(event).decode())

        yield feed


# ── The command line, and imports ───────────────────────────────────────────────────────────────────────────────────

ARGUMENTS = (
    "ls", "show", "start", "signal", "cancel", "pause", "resume", "retry", "fork", "delete", "result", "callback",
    "complete", "fail", "actor", "call", "timers", "dlq", "outbox", "bulk", "import", "checkout", "a", "Cart", "k",
    "add", "--id", "--json", "--status", "--tag", "a=b", "--limit", "--since", "--home", "sqlite:///shop.db", "memory://",
    TOKEN, '{"card": "x"}', "[]", "--wait", "1ms", "--help", "--workflow", "-a", "shop:app", "--after",
    "damaged", "--dry-run",
)  # fmt: skip
LINES = st.lists(
    st.sampled_from(ARGUMENTS) | text("--", "-", "=", ":").filter(lambda word: len(word) < 100_000), max_size=6
)
BLOCKS = frozenset({"run", "serve", "demo", "chaos", "init", "infra", "cost", "doctor", "aws", "export"})
"""What runs for long, or makes files of its own."""


@contextmanager
def open_command_line(folder: Path) -> Iterator[Feed]:
    (folder / "shop.py").write_text(textwrap.dedent(SHOP), encoding="utf-8")
    (folder / "damaged").write_text('{"holdfast": 1}\n')
    before = Path.cwd()
    os.chdir(folder)
    environment = {"HOLDFAST_APP": "shop:app", "HOLDFAST_URL": None}
    runner = CliRunner(env=environment)

    def feed(arguments: list[str]) -> None:
        if BLOCKS & set(arguments[:1]) or any("\x00" in each for each in arguments):
            return  # a system hands no NUL on
        result = runner.invoke(main, arguments, input="{}")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code in {0, 1, 2}, result.output[-500:]
        assert "Traceback" not in result.stderr

    try:
        import sys

        sys.path.insert(0, str(folder))
        yield feed
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("shop", None)
        os.chdir(before)


def exported() -> bytes:
    """A small export."""

    async def export(path: Path) -> bytes:
        home = open_memory_home()
        await home.store.write(*(Put(Item(f"doc#{n}", body=b'{"n":1}' * 20), ALWAYS) for n in range(3)))
        await export_home(home, path)
        return path.read_bytes()

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(export(Path(folder) / "export"))


@contextmanager
def open_imports(folder: Path) -> Iterator[Feed]:
    path = folder / "import"

    def feed(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(HoldfastError):
            Filed(path).verify()

    yield feed


# ── Times ───────────────────────────────────────────────────────────────────────────────────────────────────────────

LENGTHS = (
    text("1", "9", ".", "ms", "s", "m", "h", "d", "w", " ", "5m")
    | st.integers()
    | st.floats()
    | st.sampled_from([10**5_000, -(10**5_000)])
)


def measure(given: Any) -> None:
    for function in (seconds, milliseconds, lambda wait: checked_wait(wait) if isinstance(wait, int | float) else None):
        with suppress(HoldfastError):
            function(given)
    if isinstance(given, str):
        with suppress(HoldfastError):
            crontab.next_tick(crontab.read(given), UTC, datetime(2026, 1, 1, tzinfo=UTC))
        crontab.zone_of(given)


EXPRESSIONS = text(
    "*", "/", "-", ",", "0", "5", "59", "MON", "JAN", " ", "* * * * *", "0 9 * * 1", "Europe/Berlin", "30 2 31 2 *"
)

TARGETS = (
    Target("decoding", BODIES, 30, each(decode_all)),
    Target("encoding", VALUES | st.just(object()) | st.builds(set, st.lists(st.integers())), 20, each(encode)),
    Target("tokens", mutated(TOKEN.encode()) | st.binary(max_size=80), 30, each(check_token)),
    Target(
        "urls",
        text("sqlite:///", "aws://", "memory://", "redis://", "unix://", "?", "region=", "&", "@", ":", "[", "6379"),
        20,
        each(open_url),
    ),
    Target("paths", text(*WORDS) | PATHS, 30, each(parse_path)),
    Target("http", REQUESTS, 25, open_http),
    Target("lambda", EVENTS | COMMANDS | VALUES, 15, open_lambda),
    Target("cli", LINES, 2, open_command_line),
    Target("imports", mutated(exported()) | JSON | BODIES, 8, open_imports),
    Target("durations", LENGTHS | EXPRESSIONS, 20, each(measure)),
)
