"""What the hostile DynamoDB does, rule by rule. ``None`` in place of a rule switches it off."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct


class Transactions(Struct, frozen=True):
    """A transaction holds its items for ``held_seconds``. Meanwhile another transaction on one of them is cancelled,
    and a single write on one of them is refused. If the emulator takes longer, they wait.

    The service documents the refusals, and not the time: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-conflict-handling
    """

    held_seconds: float = 0.008


class TornPages(Struct, frozen=True):
    """In this share of transactions the items become visible one after another, in any order, while they are held.

    A read of several items at that time shows some of them as they were before. ``Query``, ``Scan`` and
    ``BatchGetItem`` are read-committed item by item, also with ``ConsistentRead``; only ``TransactGetItems`` reads
    items together: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-isolation
    A transaction is answered when all its items are visible.

    This share of ``pages`` takes up to ``page_seconds`` longer to read. Of what is written meanwhile, by single writes
    too, such a page shows what lies behind a drawn place, and does not show what lies before it.
    """

    share: float = 1.0
    pages: float = 0.2
    page_seconds: float = 0.01


class Capacity(Struct, frozen=True, kw_only=True):
    """Each partition of a table or index takes this many units a second, and so does each key in it.

    ``burst_seconds`` of unused units are kept. A throttled partition of an index throttles the writes of its table:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/gsi-throttling.html
    A new table on demand has four partitions: 4,000 write units and 12,000 read units. They do not split here.
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
    """

    write_units: float = 1_000.0
    read_units: float = 3_000.0
    burst_seconds: float = 1.0
    partitions: int = 4
    refusal: Literal["ThrottlingException", "ProvisionedThroughputExceededException"] = "ThrottlingException"
    """The former for tables on demand, the latter for provisioned ones."""


class Throttling(Struct, frozen=True):
    """This share of requests is throttled, whatever their rate."""

    share: float = 0.01


class Unprocessed(Struct, frozen=True):
    """This share of ``BatchGetItem`` and ``BatchWriteItem`` leaves some of its keys or items unprocessed.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
    """

    share: float = 0.05


class ShortPages(Struct, frozen=True):
    """This share of ``Query`` and ``Scan`` ends its page early, with a ``LastEvaluatedKey``.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html
    """

    share: float = 0.05


class IndexLag(Struct, frozen=True):
    """A global secondary index shows each change of its table after a time of its own, ``longest_seconds`` at most;
    most come much sooner. Until then it misses a new entry, or still names an old one.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.Writes
    """

    longest_seconds: float = 0.5


class Failures(Struct, frozen=True):
    """Shares of requests that are answered with a status of 500 or 503: before they are applied, and after.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
    """

    before: float = 0.001
    after: float = 0.001


class Slowness(Struct, frozen=True):
    """This share of requests takes up to ``longest_seconds`` longer, before or after it is applied."""

    share: float = 0.01
    longest_seconds: float = 0.2


class Cuts(Struct, frozen=True):
    """Shares of requests whose connection is cut: before they are applied, after, and in the middle of the answer."""

    before: float = 0.0005
    after: float = 0.0005
    within: float = 0.0005


class Rules(Struct, frozen=True, kw_only=True):
    """All rules. The defaults are those of the service, as far as they are documented, on an average day."""

    transactions: Transactions | None = Transactions()
    torn_pages: TornPages | None = TornPages()
    capacity: Capacity | None = Capacity()
    throttling: Throttling | None = None
    unprocessed: Unprocessed | None = Unprocessed()
    short_pages: ShortPages | None = ShortPages()
    index_lag: IndexLag | None = IndexLag()
    failures: Failures | None = Failures()
    slowness: Slowness | None = Slowness()
    cuts: Cuts | None = Cuts()


LIKE_THE_SERVICE: Final = Rules()

HOSTILE: Final = Rules(
    transactions=Transactions(0.025),
    torn_pages=TornPages(pages=0.7, page_seconds=0.03),
    throttling=Throttling(0.03),
    unprocessed=Unprocessed(0.5),
    short_pages=ShortPages(0.3),
    index_lag=IndexLag(2.0),
    failures=Failures(0.02, 0.02),
    slowness=Slowness(0.05, 0.3),
    cuts=Cuts(0.01, 0.01, 0.01),
)
"""Every fault, often."""

KIND: Final = Rules(
    transactions=None,
    torn_pages=None,
    capacity=None,
    unprocessed=None,
    short_pages=None,
    index_lag=None,
    failures=None,
    slowness=None,
    cuts=None,
)
"""No rule at all: what passes is what the emulator says. To switch on one rule: ``replace(KIND, ...)``."""
