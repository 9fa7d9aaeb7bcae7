"""The home on AWS: items in DynamoDB, large values in S3, wake-ups by SQS. Idle, it runs nothing (DESIGN §5)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from holdfast.backends.aws import names
from holdfast.backends.aws.bellringer import Bellringer
from holdfast.backends.aws.blobs import INLINE_BYTES, S3Blobs
from holdfast.backends.aws.bus import EventBridgeBus
from holdfast.backends.aws.cleaner import DynamoCleaner
from holdfast.backends.aws.cleaning import Cleaned, Hands, Tell, clean, untold
from holdfast.backends.aws.connection import Connection, ThreadedConnection
from holdfast.backends.aws.dead_letters import SqsDeadLetters
from holdfast.backends.aws.direct import DirectConnection
from holdfast.backends.aws.direct.messages import DYNAMODB, SQS, Service
from holdfast.backends.aws.doorbell import Bells, LocalDoorbell, SqsDoorbell
from holdfast.backends.aws.growth import TableSize
from holdfast.backends.aws.laggards import StreamLaggards, change_cover
from holdfast.backends.aws.listing_setup import change_listing
from holdfast.backends.aws.meter import Meter, Usage
from holdfast.backends.aws.objects import Objects
from holdfast.backends.aws.parts import change_parts, keep_parts, settle
from holdfast.backends.aws.redelivery import SqsRedelivery
from holdfast.backends.aws.requests import BOUNDS
from holdfast.backends.aws.routes import Routes, parse_routes
from holdfast.backends.aws.services import AwsServices
from holdfast.backends.aws.settings import Cover, KnownSettings, Listing, Settings, read_settings
from holdfast.backends.aws.shares import SharedSweeps
from holdfast.backends.aws.store import DynamoStore
from holdfast.backends.aws.table import create_table as create_dynamo_table
from holdfast.backends.aws.transport import Transport
from holdfast.backends.aws.units import units_of
from holdfast.backends.aws.versions import LambdaVersions
from holdfast.clock import Clock, SystemClock
from holdfast.errors import ConfigurationError
from holdfast.ids import new_id, new_seed
from holdfast.ports import Home
from holdfast.texts import told_url
from holdfast.watched import Metered, Used

PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Address(Struct, frozen=True, kw_only=True):
    """The content of the URL of a home on AWS. The endpoints are for emulators: services without one use DynamoDB's.

    ``bucket`` is where large values go, under the prefix; without one they cannot be stored. ``bus`` is the name, or
    the ARN, of the bus for events. ``routes`` says which of several functions works on what, and ``function`` which one
    of them this process is: see ``routes``. ``client=botocore`` has each request to the table
    and the queues made by botocore, for tools that watch it (``direct``).
    """

    prefix: str
    region: str | None = None
    endpoint: str | None = None
    sqs_endpoint: str | None = None
    bucket: str | None = None
    s3_endpoint: str | None = None
    lambda_endpoint: str | None = None
    bus: str | None = None
    events_endpoint: str | None = None
    routes: str | None = None
    function: str | None = None
    client: str | None = None

    @property
    def table(self) -> str:
        """The name of the table."""
        return names.base(self.prefix)

    def connect(self) -> Connection:
        """The transport to the table, with the credentials of the environment. Nothing is sent yet. Raises
        ``ConfigurationError``.
        """
        return self._open(self.endpoint, DYNAMODB)

    def open_queues(self) -> Connection:
        """The connection to SQS. Nothing is sent yet. Raises ``ConfigurationError``."""
        return self._open(self.sqs_endpoint or self.endpoint, SQS)

    def _open(self, endpoint: str | None, service: Service) -> Connection:
        match self.client:
            case None:
                return DirectConnection(self.region, endpoint, service)
            case "botocore":
                return ThreadedConnection(self.region, endpoint, service.name)
            case other:
                raise ConfigurationError(f"client= in the URL of a home on AWS is botocore or left out, not {other!r}")

    def bells(self, queue: Connection | None) -> Bellringer:
        """The sender of wake-ups, through this connection if it is given. Nothing is sent yet."""
        routes = self.parsed_routes()
        return Bellringer(
            queue or self.open_queues(), lambda partition: names.queue(self.prefix, routes.queue_of(partition))
        )

    def parsed_routes(self) -> Routes:
        """Which function works on what. Raises ``ConfigurationError``."""
        return parse_routes(self.routes, self.function)

    def services(self) -> AwsServices:
        """The services around the table, to be asked whether they are there. Nothing is sent yet."""
        endpoints = {
            "sqs": self.sqs_endpoint,
            "events": self.events_endpoint,
            "s3": self.s3_endpoint,
        }

        def connect(service: str) -> Connection:
            return ThreadedConnection(self.region, endpoints[service] or self.endpoint, service)

        return AwsServices(self.prefix, connect, self.bucket, self.bus, self.parsed_routes().queues)

    def open_versions(self, own: str, connection: Connection | None = None) -> LambdaVersions:
        """The caller of published versions of functions. Nothing is sent yet."""
        endpoint = self.lambda_endpoint or self.endpoint
        return LambdaVersions(connection or ThreadedConnection(self.region, endpoint, "lambda"), own)

    def open_bus(self, connection: Connection | None = None) -> EventBridgeBus | None:
        """The bus, if there is one. Nothing is sent yet."""
        if self.bus is None:
            return None
        endpoint = self.events_endpoint or self.endpoint
        return EventBridgeBus(connection or ThreadedConnection(self.region, endpoint, "events"), self.bus)

    def open_blobs(self, connection: Connection | None = None) -> S3Blobs | None:
        """The place for large values, if there is one. Nothing is sent yet."""
        if self.bucket is None:
            return None
        connection = connection or ThreadedConnection(self.region, self.s3_endpoint or self.endpoint, "s3")
        return S3Blobs(Objects(connection, self.bucket, random=Random(new_seed())), self.prefix)


LONGEST_SHOWN: Final = 200
"""How many characters of a URL a message shows."""


def parse_address(url: str) -> Address:
    """Read ``aws://<prefix>?region=…&bucket=…``; its options are the fields of ``Address``.

    Raises ``ConfigurationError``.

    >>> parse_address("aws://shop?region=eu-west-1").table
    'shop-holdfast'
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError(f"{url[:LONGEST_SHOWN]!r} is not a URL: {error}") from None
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(given)
    if parts.scheme != "aws" or not PREFIX.fullmatch(parts.netloc) or parts.path.strip("/"):
        raise ConfigurationError(
            f"{told_url(url)!r} names no home on AWS. Write aws://prefix?region=eu-west-1, the prefix of letters, "
            "digits, - and _; for an emulator add &endpoint=http://127.0.0.1:8000"
        )
    known = Address.__struct_fields__[1:]
    if unknown := sorted(options.keys() - set(known)):
        raise ConfigurationError(f"{told_url(url)!r} has no option {', '.join(unknown)}; there are: {', '.join(known)}")
    if repeated := sorted(name for name, count in Counter(name for name, _ in given).items() if count > 1):
        raise ConfigurationError(f"{told_url(url)!r} has {', '.join(repeated)} more than once: which one counts?")
    for name, value in options.items():
        if value and name.endswith("endpoint") and not _is_web_address(value):
            raise ConfigurationError(
                f"{told_url(url)!r}: {name} is no URL; write its scheme too, as in {name}=http://127.0.0.1:8000"
            )
    return Address(prefix=parts.netloc, **{name: value for name, value in options.items() if value})


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


async def open_aws_home(  # noqa: PLR0913 - each service of AWS has a connection of its own, which tests replace
    url: str,
    *,
    clock: Clock | None = None,
    tell: Callable[..., Any] | None = None,
    connection: Connection | None = None,
    queue: Connection | None = None,
    s3: Connection | None = None,
    functions: Connection | None = None,
    events: Connection | None = None,
    bells: Bells | None = None,
    owner: str | None = None,
    published: str = "",
) -> Home:
    """Open the home that ``aws://<prefix>?region=…`` names; ``create_table`` has created its table before.

    Nothing is sent yet: the first request reports what is wrong with the table or the credentials. ``tell`` counts an
    event of telemetry: ``ring_failed``. Homes in one process that share ``bells`` wake each other at once.
    ``published`` is the name of the version of a function that this process runs. The connections and ``owner`` are for
    tests.
    """
    address, owner, clock = parse_address(url), owner or f"aws-{new_id()[:12]}", clock or SystemClock()
    transport = Transport(connection or address.connect(), address.table, random=Random(new_seed()))
    blobs, bus, versions = address.open_blobs(s3), address.open_bus(events), address.open_versions(published, functions)
    settings, queue = KnownSettings(transport, address.table, clock), queue or address.open_queues()
    store = DynamoStore(transport, address.table, settings=settings, on_close=partial(_close, blobs, bus, versions))
    doorbell = SqsDoorbell(bells or Bells(), owner, address.bells(queue), clock, tell or _untold)
    return Home(
        url=told_url(url),
        owner=owner,
        store=store,
        inventory=store,
        cleaner=DynamoCleaner(Hands(transport, address.table, blobs), store, clock),
        doorbell=doorbell,
        invoker=doorbell,
        metered=_metered(address.prefix, store.meter, TableSize(transport, address.table, clock)),
        versions=versions,
        laggards=StreamLaggards(transport, settings),
        sweeps=SharedSweeps(store, owner, clock),
        redelivery=SqsRedelivery(queue),
        services=address.services(),
        dead_letters=SqsDeadLetters(queue, address.prefix, address.parsed_routes().queues),
        blobs=blobs,
        inline_bytes=INLINE_BYTES,
        packs=True,
        bounds=BOUNDS,
        bus=bus,
        writes_are_paid=True,
        units_of=units_of,
        pages_tear=True,
        heads_go_first=True,
        serves=address.parsed_routes().serves,
        divide=partial(keep_parts, store, settings),
        lists_by_scan=store.lists_by_scan,
        reads_are_paid=True,
        hears_peers=False,
    )


def _close(*connected: S3Blobs | EventBridgeBus | LambdaVersions | None) -> None:
    for each in connected:
        if each is not None:
            each.close()


def _metered(prefix: str, meter: Meter, size: TableSize) -> Metered:
    return Metered(names.metrics(prefix), lambda: _used(meter, size), size.refresh)


def _used(meter: Meter, size: TableSize) -> Used:
    total = meter.total
    return Used(total.write_units, total.read_units, meter.largest_item_bytes, size.bytes)


def _untold(event: str, **fields: object) -> None:
    """No telemetry was asked for."""


async def create_table(url: str, *, listing: bool = False) -> bool:
    """Create the table of a home, unless it exists: billed per request, with TTL and point-in-time recovery. With
    ``listing`` it has the index by which heads can be listed (``set_up``), also if the table exists.

    Returns whether the table was created. Raises ``StoreUnusable`` with the reason if this process may not, or if the
    existing table is not a table of Holdfast.
    """
    address = parse_address(url)
    connection = address.connect()
    try:
        return await create_dynamo_table(connection, address.table, listing=listing)
    finally:
        connection.close()


async def clean_up(
    url: str,
    *,
    dry_run: bool = False,
    tell: Tell = untold,
    clock: Clock | None = None,
    connection: Connection | None = None,
    s3: Connection | None = None,
) -> Cleaned:
    """Delete what is left of executions that have expired, and blobs without a reference: for operators and cron jobs.

    With ``dry_run`` they are only counted. See ``cleaning.clean``. It may be run again, and while workers run. Raises
    like every request.
    """
    address = parse_address(url)
    transport = Transport(connection or address.connect(), address.table, random=Random(new_seed()))
    blobs = address.open_blobs(s3)
    try:
        return await clean(Hands(transport, address.table, blobs, dry_run), clock or SystemClock(), tell)
    finally:
        transport.close()
        if blobs is not None:
            blobs.close()


async def set_up(
    url: str,
    *,
    parts: int | None = None,
    cover: Cover | None = None,
    listing: Listing | None = None,
    clock: Clock | None = None,
) -> Settings:
    """The settings of a home, after a change if ``parts`` is given, the number of parts of the index of what is due, or
    ``cover``: whether accepted work is found by this index alone, or by the stream of the table too, or ``listing``:
    whether heads are listed by an index, or by a scan of the table.

    A change takes effect six minutes later. See ``settings``. Raises ``ConfigurationError``, and like every request.
    """
    address = parse_address(url)
    transport = Transport(address.connect(), address.table, random=Random(new_seed()))
    store = DynamoStore(transport, address.table)
    try:
        if cover is not None:
            await change_cover(store, transport, cover)
        if listing is not None:
            await change_listing(store, transport, listing)
        if parts is None:
            return await read_settings(transport, address.table)
        return await change_parts(store, parts, clock or SystemClock())
    finally:
        await store.close()


async def settle_parts(url: str, *, clock: Clock | None = None) -> int:
    """Move what is still in parts of the index that are no longer used, at least an hour after they were; returns how
    many heads were moved. Raises ``ConfigurationError`` before that, and like every request.
    """
    address = parse_address(url)
    transport = Transport(address.connect(), address.table, random=Random(new_seed()))
    store = DynamoStore(transport, address.table)
    try:
        return await settle(store, transport, clock or SystemClock())
    finally:
        await store.close()


__all__ = [
    "Address",
    "Bells",
    "Cleaned",
    "Cover",
    "DynamoStore",
    "EventBridgeBus",
    "LambdaVersions",
    "Listing",
    "LocalDoorbell",
    "Meter",
    "Objects",
    "S3Blobs",
    "Settings",
    "SqsDoorbell",
    "Transport",
    "Usage",
    "clean_up",
    "create_table",
    "open_aws_home",
    "parse_address",
    "set_up",
    "settle_parts",
]
