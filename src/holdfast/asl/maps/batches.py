"""Portions of items, for one child execution each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET, Struct

from holdfast.asl.errors import RUNTIME, EvaluationError
from holdfast.asl.jsontext import compact, size_bytes
from holdfast.asl.maps.items import Item
from holdfast.asl.paths import read_definite
from holdfast.asl.templates import evaluated, filled, of_type
from holdfast.asl.visit import Visit


class Batcher(Struct, frozen=True):
    """How large a portion may be, and what goes with each of them."""

    most_items: int | None
    most_bytes: int | None
    batch_input: Any = UNSET

    @staticmethod
    def of(visit: Visit, effective: Any, written: dict[str, Any]) -> Batcher:
        """What an ``ItemBatcher`` says. Raises ``EvaluationError``."""
        given = written.get("BatchInput", UNSET)
        if given is not UNSET:
            jsonata = visit.state.jsonata
            given = (
                evaluated(given, visit, "ItemBatcher/BatchInput")
                if jsonata
                else filled(given, visit.about(effective), visit.randomness)
            )
        return Batcher(
            _limit(visit, effective, written, "MaxItemsPerBatch"),
            _limit(visit, effective, written, "MaxInputBytesPerBatch"),
            given,
        )

    def made(self, items: list[Any]) -> dict[str, Any]:
        """The input of the execution for some items."""
        return {"Items": items} if self.batch_input is UNSET else {"Items": items, "BatchInput": self.batch_input}


def _limit(visit: Visit, effective: Any, written: dict[str, Any], field: str) -> int | None:
    path = written.get(f"{field}Path")
    value = written.get(field) if path is None else read_definite(path, visit.about(effective))
    if isinstance(value, str) and path is None:
        value = of_type("number", value, visit, f"ItemBatcher/{field}")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value <= 0):
        raise EvaluationError(RUNTIME, f"{field} must be a positive integer, but was {compact(value)}")
    return value


def batched(inputs: Sequence[tuple[Item, Any]], batcher: Batcher) -> Iterator[dict[str, Any]]:
    """The inputs of the child executions, in the order of the items."""
    batch: list[Any] = []
    around = 0 if batcher.most_bytes is None else size_bytes(batcher.made([]))
    size = around
    for _, given in inputs:
        own = 0 if batcher.most_bytes is None else size_bytes(given) + len(",")
        full = batcher.most_items is not None and len(batch) >= batcher.most_items
        if batch and (full or (batcher.most_bytes is not None and size + own - len(",") > batcher.most_bytes)):
            yield batcher.made(batch)
            batch, size = [], around
        batch.append(given)
        size += own
    if batch:
        yield batcher.made(batch)
