"""Records of a table's stream as a consumer may get them: again, late, and those of different items in any order.

Records of one item come in the order of its changes; nothing is promised of those of different items, not even of one
transaction: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html and
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html
Lambda invokes a function again with a batch that has failed, also with those of it that were handled:
https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.testing.hostile.report import Fault, Report

Record = dict[str, Any]


class Disorder(Struct, frozen=True):
    """The share of records that wait while those of other items pass, of those that come again, and the size of a
    batch.
    """

    late: float = 0.3
    again: float = 0.2
    batch: int = 10


def disordered(
    records: Sequence[Record], seed: int, report: Report | None = None, disorder: Disorder | None = None
) -> Iterator[list[Record]]:
    """The records in batches, as a consumer may get them; the order of each item is kept.

    What comes again comes with all that its item had since: as when a batch, or a shard, is read again.

    >>> def change(key: str, number: int) -> dict[str, object]:
    ...     return {"dynamodb": {"Keys": {"p": {"S": key}}, "SequenceNumber": str(number)}}
    >>> batches = disordered([change("a", 1), change("b", 2), change("a", 3)], seed=3)
    >>> numbers = [each["dynamodb"]["SequenceNumber"] for batch in batches for each in batch]
    >>> sorted(set(numbers)), numbers.index("1") < numbers.index("3")
    (['1', '2', '3'], True)
    """
    rules, random, counted = disorder or Disorder(), Random(seed), report or Report()
    waiting: dict[bytes, list[Record]] = {}
    for record in records:
        waiting.setdefault(msgspec.json.encode(record["dynamodb"]["Keys"], order="sorted"), []).append(record)
    came: dict[bytes, list[Record]] = {key: [] for key in waiting}
    order = [msgspec.json.encode(record["dynamodb"]["Keys"], order="sorted") for record in records]
    batch: list[Record] = []
    while order:
        at = 0
        if len(order) > 1 and random.random() < rules.late:
            at = random.randrange(1, len(order))
            counted.faults[Fault.RECORD_LATE] += 1
        key = order.pop(at)
        if came[key] and random.random() < rules.again:
            counted.faults[Fault.RECORD_AGAIN] += 1
            batch += came[key][random.randrange(len(came[key])) :]
        came[key].append(waiting[key].pop(0))
        batch.append(came[key][-1])
        while len(batch) >= rules.batch:
            yield batch[: rules.batch]
            batch = batch[rules.batch :]
    if batch:
        yield batch
