"""The options of the infrastructure of a home."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from holdfast.backends.aws import names
from holdfast.errors import ConfigurationError
from holdfast.infra.intrinsics import here

PREFIX: Final = re.compile(r"[a-z][a-z0-9-]{0,18}[a-z0-9]|[a-z]")
TENANT: Final = re.compile(r"[A-Za-z0-9_-]+/")
"""It has no wildcard of a condition of IAM."""

"""Of twenty characters: a bucket's name has at most 63, and contains account and region."""

BUS: Final = re.compile(r"[/.\-_A-Za-z0-9:]{1,1600}")
"""A name or an ARN ("PutRule", EventBridge API reference)."""

LONGEST_PATTERN: Final = 2048
"""In characters ("Amazon EventBridge quotas", user guide)."""

VISIBILITY_PER_TIMEOUT: Final = 6
"""How many time-outs of the function a message stays hidden ("Using Lambda with Amazon SQS", developer guide)."""

LONGEST_TIMEOUT_SECONDS: Final = 900
LONGEST_WINDOW_SECONDS: Final = 300
LOG_DAYS: Final = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""How long logs may be kept ("PutRetentionPolicy", CloudWatch Logs API reference)."""

LARGEST_BATCH: Final = 10_000
LARGEST_BATCH_AT_ONCE: Final = 10
"""A larger batch requires a window ("Using Lambda with Amazon SQS", developer guide)."""


class LocalCode(Struct, frozen=True):
    """A folder or zip file on this machine: ``aws cloudformation package`` uploads it. ``digest`` is of its content."""

    path: str
    digest: str


class UploadedCode(Struct, frozen=True):
    """A zip file in a bucket, under a key that no other code will ever have. CDK may resolve both later."""

    bucket: str
    key: str
    digest: str


class Function(Struct, frozen=True, kw_only=True):
    """The function of the template: it handles wake-ups and ordered messages, sweeps, and answers calls.

    Raises ``ConfigurationError`` for a number of ``log_days`` that CloudWatch does not support.
    """

    code: LocalCode | UploadedCode
    handler: str = "handler.handler"
    runtime: str = "python3.13"
    architecture: Literal["arm64", "x86_64"] = "arm64"
    memory_mb: int = 512
    timeout_seconds: int = 60
    environment: dict[str, str] = {}
    reserved_concurrency: int | None = None
    log_days: int = 30
    url: Literal["off", "iam", "public"] = "off"

    def __post_init__(self) -> None:
        if self.log_days not in LOG_DAYS:
            days = ", ".join(str(each) for each in LOG_DAYS)
            raise ConfigurationError(f"log_days must be one of {days}, got {self.log_days}")


class Existing(Struct, frozen=True, kw_only=True):
    """A function that is created elsewhere: its name, and the ARN of the alias to call. CDK may resolve both later.

    Its creator attaches the worker's policy to its role, lets it invoke its own versions and itself recursively
    (``RecursiveLoop``), and sets ``HOLDFAST_URL``. ``DurableFabric`` does all of it.
    """

    name: Any
    alias_arn: Any
    timeout_seconds: int = 60


class EventRule(Struct, frozen=True):
    """Which events of a bus the consumers here get: ``pattern`` is a pattern of EventBridge that should name their
    sources.

    ``bus`` is its name or ARN. The events come through the doorbell's queue, which keeps them until they are handled.
    Raises ``ConfigurationError`` for what EventBridge would obviously refuse.

    >>> EventRule("shop-holdfast", {"source": ["holdfast.shop"], "detail-type": ["OrderPlaced"]}).bus
    'shop-holdfast'
    """

    bus: str
    pattern: dict[str, Any]

    def __post_init__(self) -> None:
        if not BUS.fullmatch(self.bus):
            raise ConfigurationError(f"{self.bus!r} names no bus: use its name, or its ARN")
        if not self.pattern or not all(_chooses(each) for each in self.pattern.values()):
            raise ConfigurationError(f"a pattern must list the values that it accepts, and {self.pattern} does not")
        if len(json.dumps(self.pattern)) > LONGEST_PATTERN:
            raise ConfigurationError(f"the pattern of a rule must have at most {LONGEST_PATTERN} characters")

    @property
    def digest(self) -> str:
        """Its identity: a rule for another bus is another rule, which replaces it."""
        return digest_of([self.bus, self.pattern])


def _chooses(value: Any) -> bool:
    match value:
        case {**parts} if parts:
            return all(_chooses(each) for each in parts.values())
        case [_, *_]:
            return True
        case _:
            return False


class Fabric(Struct, frozen=True, kw_only=True):
    """Everything that a home on AWS needs. Raises ``ConfigurationError`` for what AWS would refuse.

    prefix            names everything; see ``backends.aws.names``
    function          the worker; without it there are the data, the queues and the policies, but no worker
    own_table         the table exists already, created by ``create_table`` or another stack
    own_bucket        a bucket that exists already
    key_arn           encrypt with this KMS key, instead of AWS's own keys for each service
    stream            the table's stream sends wake-ups too: at once, in case a writer died before it could
    ordered           the ordered queue, which feeds actors; an idle one costs a little
    batch_size        the most messages per invocation
    batch_window_seconds  how long to wait for more of them
    most_at_once      the most concurrent invocations for the doorbell
    event_rules       which events of buses the consumers of the function get
    alarm_topic_arn   where alarms go; without it they are only shown
    tenants           prefixes of ids and keys; each gets a policy that reads only what begins with it
    keep_data         deleting the stack keeps table, bucket and queues of dead letters

    >>> Fabric(prefix="shop").visibility_seconds
    360
    """

    prefix: str
    function: Function | Existing | None = None
    own_table: bool = False
    own_bucket: str | None = None
    key_arn: str | None = None
    stream: bool = False
    ordered: bool = True
    batch_size: int = 10
    batch_window_seconds: int = 0
    most_at_once: int | None = None
    event_rules: Sequence[EventRule] = ()
    alarm_topic_arn: str | None = None
    tenants: Sequence[str] = ()
    keep_data: bool = True

    def __post_init__(self) -> None:
        if not PREFIX.fullmatch(self.prefix):
            raise ConfigurationError(
                f"the prefix {self.prefix!r} does not fit the names of AWS: begin with a small letter, and use at "
                "most 20 small letters, digits and hyphens"
            )
        if self.stream and (self.own_table or self.function is None):
            raise ConfigurationError(
                "the stream needs a table of this template, and a function: leave out own_table (--own-table), "
                "and give the function (--code)"
            )
        if self.event_rules and self.function is None:
            raise ConfigurationError(
                "rules bring events to a function, but there is none: give it too, or leave them out"
            )
        for tenant in self.tenants:
            if not TENANT.fullmatch(tenant):
                raise ConfigurationError(
                    f"the tenant {tenant!r} is not a prefix of ids: write letters, digits, - and _, and / at its end, "
                    "such as acme/"
                )
        for what, value, least, most in (
            ("the time-out of the function", self.timeout_seconds, 1, LONGEST_TIMEOUT_SECONDS),
            ("the window of a batch", self.batch_window_seconds, 0, LONGEST_WINDOW_SECONDS),
            ("a batch", self.batch_size, 1, LARGEST_BATCH if self.batch_window_seconds else LARGEST_BATCH_AT_ONCE),
            ("most_at_once", self.most_at_once or 2, 2, 1000),
        ):
            if not least <= value <= most:
                raise ConfigurationError(f"{what} must be between {least} and {most}, got {value}")

    @property
    def timeout_seconds(self) -> int:
        """How long one invocation may take."""
        return 60 if self.function is None else self.function.timeout_seconds

    @property
    def visibility_seconds(self) -> int:
        """How long a message that was received stays hidden: long enough for six attempts of the function."""
        return VISIBILITY_PER_TIMEOUT * self.timeout_seconds + self.batch_window_seconds

    @property
    def bucket(self) -> Any:
        """The name of the bucket, for the template."""
        return self.own_bucket or here(names.bucket(self.prefix, "${AWS::AccountId}", "${AWS::Region}"))


def local_code(path: Path) -> LocalCode:
    """The code in this folder or zip file, with a digest of its names and contents: new code, new version.

    Raises ``ConfigurationError`` if there is none.
    """
    files = sorted(each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
    if path.is_file():
        files = [path]
    if not files:
        raise ConfigurationError(f"there is no code in {path}: build it first, or correct the path")
    content = [(file.relative_to(path).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    return LocalCode(str(path), digest_of(content))


def uploaded_code(url: str) -> UploadedCode:
    """The code at ``s3://bucket/key``. Its key is used as its digest. Raises ``ConfigurationError``."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise ConfigurationError(f"{url!r} names no object: write s3://bucket/key")
    return UploadedCode(bucket, key, digest_of(url))


def digest_of(value: Any) -> str:
    """Forty bits of the digest of the value as JSON: enough to distinguish versions of one function."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]
