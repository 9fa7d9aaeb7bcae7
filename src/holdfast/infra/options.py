"""The options of the infrastructure of a home."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.backends.aws import names
from holdfast.backends.aws.layout import DEFAULT_PARTS
from holdfast.backends.aws.parts import MOST_PARTS
from holdfast.backends.aws.routes import MAIN
from holdfast.errors import ConfigurationError
from holdfast.infra.function_options import Existing, Function, Routed, digest_of
from holdfast.infra.intrinsics import here

PREFIX: Final = re.compile(r"[a-z][a-z0-9-]{0,18}[a-z0-9]|[a-z]")
"""Of twenty characters: a bucket's name has at most 63, and contains account and region."""

FURTHER: Final = re.compile(r"[a-z][a-z0-9]{0,19}")

TENANT: Final = re.compile(r"[A-Za-z0-9_-]+/")
"""It has no wildcard of a condition of IAM."""

BUS: Final = re.compile(r"[/.\-_A-Za-z0-9:]{1,1600}")
"""A name or an ARN ("PutRule", EventBridge API reference)."""

LONGEST_PATTERN: Final = 2048
"""In characters ("Amazon EventBridge quotas", user guide)."""

VISIBILITY_PER_TIMEOUT: Final = 6
"""How many time-outs of the function a message stays hidden ("Using Lambda with Amazon SQS", developer guide)."""

LONGEST_TIMEOUT_SECONDS: Final = 900
LARGEST_TABLE_GB: Final = 1_000_000
LONGEST_WINDOW_SECONDS: Final = 300
LARGEST_BATCH: Final = 10_000
LARGEST_BATCH_AT_ONCE: Final = 10
"""A larger batch requires a window ("Using Lambda with Amazon SQS", developer guide)."""

LEAST_RECEIVES: Final = 5
"""Lambda requires this number of receipts before a message is a dead letter ("Using Lambda with Amazon SQS")."""

MOST_RECEIVES: Final = 1000
"""The largest maxReceiveCount ("SetQueueAttributes", API reference of Amazon SQS)."""


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
    functions         further functions by their names, for some workflows and actors; ``function`` has the rest
    function          the worker; without it there are the data, the queues and the policies, but no worker
    own_table         the table exists already, created by ``create_table`` or another stack
    own_bucket        a bucket that exists already
    key_arn           encrypt with this KMS key, instead of AWS's own keys for each service
    stream            the table's stream can find accepted work whose wake-up was lost, instead of the index of what
                      is due, which costs two units for each message: see ``holdfast aws settings --cover stream``
    listing           executions and actors can be listed by an index, which costs a unit for each new one, instead of
                      reading the whole table: see ``holdfast aws settings --listing index``
    parts             of the index of what is due: the function that sweeps changes their number to this one, as
                      ``holdfast aws settings --parts`` does. Without it the number is as the settings say, at first 4
    ordered           the ordered queue, which feeds actors; an idle one costs a little
    ordered_receives  after this many receipts an ordered message becomes a dead letter
    batch_size        the most messages per invocation
    batch_window_seconds  how long to wait for more of them
    most_at_once      the most concurrent invocations for the doorbell
    event_rules       which events of buses the consumers of the function get
    alarm_topic_arn   where alarms go; without it they are only shown
    alarm_table_gb    an alarm goes off when the table is larger than this
    tenants           prefixes of ids and keys; each gets a policy that reads only what begins with it
    keep_data         deleting the stack keeps table, bucket and queues of dead letters

    >>> Fabric(prefix="shop").visibility_seconds
    360
    """

    prefix: str
    function: Function | Existing | None = None
    functions: dict[str, Routed] = {}
    own_table: bool = False
    own_bucket: str | None = None
    key_arn: str | None = None
    stream: bool = False
    listing: bool = False
    parts: int | None = None
    ordered: bool = True
    ordered_receives: int = 100
    batch_size: int = 10
    batch_window_seconds: int = 0
    most_at_once: int | None = None
    event_rules: Sequence[EventRule] = ()
    alarm_topic_arn: str | None = None
    alarm_table_gb: int = 100
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
        if self.parts is not None and self.function is None:
            raise ConfigurationError(
                "the function that sweeps keeps the number of parts, but there is none: holdfast aws settings --parts "
                "changes it"
            )
        if self.listing and self.own_table:
            raise ConfigurationError(
                "the index of listings is part of a table of this template: leave out own_table (--own-table), or give "
                "your table the index: holdfast aws create-table --listing"
            )
        if self.event_rules and self.function is None:
            raise ConfigurationError(
                "rules bring events to a function, but there is none: give it too, or leave them out"
            )
        self._check_functions()
        for tenant in self.tenants:
            if not TENANT.fullmatch(tenant):
                raise ConfigurationError(
                    f"the tenant {tenant!r} is not a prefix of ids: write letters, digits, - and _, and / at its end, "
                    "such as acme/"
                )
        for what, value, least, most in (
            *(
                ("the time-out of the function", each.timeout_seconds, 1, LONGEST_TIMEOUT_SECONDS)
                for each in (self.made.values() or [self])
            ),
            ("the window of a batch", self.batch_window_seconds, 0, LONGEST_WINDOW_SECONDS),
            ("a batch", self.batch_size, 1, LARGEST_BATCH if self.batch_window_seconds else LARGEST_BATCH_AT_ONCE),
            ("ordered_receives", self.ordered_receives, LEAST_RECEIVES, MOST_RECEIVES),
            ("alarm_table_gb", self.alarm_table_gb, 1, LARGEST_TABLE_GB),
            ("most_at_once", self.most_at_once or 2, 2, 1000),
            ("parts", DEFAULT_PARTS if self.parts is None else self.parts, 1, MOST_PARTS),
        ):
            if not least <= value <= most:
                raise ConfigurationError(f"{what} must be between {least} and {most}, got {value}")

    def _check_functions(self) -> None:
        if self.functions and not isinstance(self.function, Function):
            raise ConfigurationError("further functions have the code of the main one: give it (--code) too")
        for name in self.functions:
            if name == MAIN or not FURTHER.fullmatch(name):
                raise ConfigurationError(
                    f"{name!r} cannot name a function: use at most 20 small letters and digits, beginning with a "
                    f"letter, and not {MAIN}"
                )
        places = [place for each in self.functions.values() for place in each.places]
        if twice := sorted({place for place in places if places.count(place) > 1}):
            raise ConfigurationError(f"{', '.join(twice)}: only one function can work on it")

    @property
    def made(self) -> dict[str, Function]:
        """The functions of the template by their names: the main one first."""
        if not isinstance(self.function, Function):
            return {}
        return {MAIN: self.function, **{name: each.whole(self.function) for name, each in self.functions.items()}}

    @property
    def routes(self) -> dict[str, str]:
        """Which function works on what; see ``backends.aws.routes``."""
        return {place: name for name, each in self.functions.items() for place in each.places}

    @property
    def timeout_seconds(self) -> int:
        """How long one invocation may take."""
        return 60 if self.function is None else self.function.timeout_seconds

    @property
    def visibility_seconds(self) -> int:
        """How long a message that was received stays hidden: long enough for six attempts of the function."""
        return self.visibility_of(self.timeout_seconds)

    def visibility_of(self, timeout_seconds: int) -> int:
        """The same for a function with this time-out."""
        return VISIBILITY_PER_TIMEOUT * timeout_seconds + self.batch_window_seconds

    @property
    def bucket(self) -> Any:
        """The name of the bucket, for the template."""
        return self.own_bucket or here(names.bucket(self.prefix, "${AWS::AccountId}", "${AWS::Region}"))
