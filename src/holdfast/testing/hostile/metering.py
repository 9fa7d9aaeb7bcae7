"""What requests take of the capacity of keys and partitions, and when there is none left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.testing.hostile.answers import Answer, throttled
from holdfast.testing.hostile.capacity import Buckets, Load
from holdfast.testing.hostile.report import Fault
from holdfast.testing.hostile.rules import Capacity
from holdfast.testing.hostile.tables import Item
from holdfast.testing.hostile.writes import Action

TRANSACTIONAL: float = 2.0


class Metering:
    """Buckets of units written and read."""

    def __init__(self, rule: Capacity) -> None:
        self._refusal = rule.refusal
        self.writes = Buckets(rule, rule.write_units)
        self.reads = Buckets(rule, rule.read_units)

    @property
    def reason_in_transactions(self) -> str:
        """The code of a cancelled transaction's reason."""
        return "ThrottlingError" if self._refusal == "ThrottlingException" else "ProvisionedThroughputExceeded"

    def write_fault(self, action: Action, now: float) -> Fault | None:
        """Whether a write has to wait, for its table or for an index."""
        name, partition, _ = action.place
        if self.writes.exhausted(Load(name, "", partition), now):
            return Fault.KEY_THROTTLED
        for index, keys in action.table.indexes.items():
            if action.changes_index(keys):
                into = action.index_partition(keys, None)
                if into is not None and self.writes.exhausted(Load(name, index, into), now):
                    return Fault.INDEX_THROTTLED
        return None

    def read_fault(self, load: Load, now: float) -> Fault | None:
        """Whether a read has to wait."""
        return Fault.KEY_THROTTLED if self.reads.exhausted(load, now) else None

    def refusal(self, fault: Fault, kind: str, table: str) -> Answer:
        """The answer to a request that has to wait; ``kind`` is ``Write`` or ``Read``."""
        of = "Index" if fault is Fault.INDEX_THROTTLED else "Table"
        reason = f"{of}{kind}KeyRangeThroughputExceeded"
        return throttled(self._refusal, reason, f"arn:aws:dynamodb:eu-west-1:000000000000:table/{table}")

    def wrote(self, action: Action, before: Item | None, consumed: Mapping[str, Any] | None, now: float) -> None:
        """Take the units of a single write; as the emulator has counted them, else an estimate."""
        units = _units(consumed, action.write_units(before))
        of_indexes = (consumed or {}).get("GlobalSecondaryIndexes", {})
        self.writes.take(self._loads(action, before, units, of_indexes), now)

    def wrote_together(self, actions: Sequence[Action], before: Mapping[Any, Item | None], now: float) -> None:
        """Take the units of a transaction: twice those of single writes, and once those of the indexes."""
        for action in actions:
            was = before.get(action.place)
            units = TRANSACTIONAL * action.write_units(was)
            changed = {
                index: {"CapacityUnits": 1.0}
                for index, keys in action.table.indexes.items()
                if action.changes_index(keys)
            }
            self.writes.take(self._loads(action, was, units, changed), now)

    def read(self, loads: Iterable[Load], now: float) -> None:
        """Take the units of a read."""
        self.reads.take(loads, now)

    def _loads(
        self, action: Action, before: Item | None, units: float, of_indexes: Mapping[str, Any]
    ) -> Iterable[Load]:
        name, partition, _ = action.place
        yield Load(name, "", partition, units)
        for index, each in of_indexes.items():
            into = action.index_partition(action.table.indexes[index], before)
            if into is not None and each.get("CapacityUnits"):
                yield Load(name, index, into, each["CapacityUnits"])


def _units(consumed: Mapping[str, Any] | None, estimated: float) -> float:
    if consumed is None:
        return estimated
    units: float = consumed.get("Table", consumed).get("CapacityUnits", estimated)
    return units


def as_asked(content: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """An answer with the units that its request has asked for, and not more."""
    consumed: dict[str, Any] | list[dict[str, Any]] | None = content.get("ConsumedCapacity")
    wanted = parameters.get("ReturnConsumedCapacity", "NONE")
    if consumed is None or wanted == "INDEXES":
        return content
    rest = {name: value for name, value in content.items() if name != "ConsumedCapacity"}
    if wanted == "NONE":
        return rest
    total = _total(consumed) if isinstance(consumed, dict) else [_total(each) for each in consumed]
    return rest | {"ConsumedCapacity": total}


def _total(consumed: Mapping[str, Any]) -> dict[str, Any]:
    details = {"Table", "GlobalSecondaryIndexes", "LocalSecondaryIndexes"}
    return {name: value for name, value in consumed.items() if name not in details}
