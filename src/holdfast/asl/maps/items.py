"""The items of a Map, and what each iteration gets of its item."""

from __future__ import annotations

from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType

from holdfast.asl.definition import Map
from holdfast.asl.errors import QUERY_EVALUATION_ERROR, RUNTIME, EvaluationError
from holdfast.asl.jsontext import compact, is_array, is_object
from holdfast.asl.paths import read_definite
from holdfast.asl.templates import evaluated, filled, of_type
from holdfast.asl.visit import Visit


class Item(Struct, frozen=True):
    """One item, with its place. An item of an object has its ``key``."""

    index: int
    value: Any
    key: str | UnsetType = UNSET
    source: str | UnsetType = UNSET

    @property
    def context(self) -> dict[str, Any]:
        """What the context object says of it, as ``Map.Item``."""
        told = {"Index": self.index, "Value": self.value}
        if self.key is not UNSET:
            told["Key"] = self.key
        if self.source is not UNSET:
            told["Source"] = self.source
        return told

    @property
    def input(self) -> Any:
        """What an iteration gets if nothing selects it."""
        return self.value if self.key is UNSET else {"Key": self.key, "Value": self.value}


async def items_of(visit: Visit, effective: Any, *, objects: bool = True) -> list[Item]:
    """The items, from the state's input. Raises ``StatesError``.

    ``objects``: JSONata may yield an object, whose fields are the items. Recorded executions of AWS refuse it; its
    documentation allows it by now.
    """
    collection = _collection(visit, effective, objects=objects)
    if is_object(collection):
        return [Item(index, value, key) for index, (key, value) in enumerate(collection.items())]
    return [Item(index, value) for index, value in enumerate(collection)]


def _collection(visit: Visit, effective: Any, *, objects: bool) -> list[Any] | dict[str, Any]:
    state = cast("Map", visit.state)
    if state.jsonata:
        return _by_jsonata(state, visit, objects=objects)
    path = "$" if state.items_path is UNSET or state.items_path is None else state.items_path
    value = read_definite(path, visit.about(effective))
    if is_array(value) or (is_object(value) and takes_objects(state)):
        visit.note("afterItemsPath", value)
        return value
    told = path.removeprefix("$") if path.startswith("$$") else path
    raise EvaluationError(RUNTIME, f'Reference path "{told}" must point to array.')


def takes_objects(state: Map) -> bool:
    """Whether a Map runs once for each field of an object, which AWS does for distributed ones alone."""
    return state.processor is not None and state.processor.distributed


def _by_jsonata(state: Map, visit: Visit, *, objects: bool) -> list[Any] | dict[str, Any]:
    value = visit.input if state.items is UNSET else evaluated(state.items, visit, "Items")
    if is_array(value) or (objects and is_object(value)):
        visit.note("afterItems", value)
        return value
    if state.items is not UNSET:
        of_type("array", state.items, visit, "Items")
    raise EvaluationError(QUERY_EVALUATION_ERROR, f"Map state input must be an array but was: {compact(value)}")


def selected(visit: Visit, effective: Any, item: Item) -> Any:
    """What one iteration gets. Raises ``EvaluationError``."""
    state = cast("Map", visit.state)
    if state.item_selector is UNSET:
        return item.input
    inside = visit.with_context(Map={"Item": item.context})
    if state.jsonata:
        return evaluated(state.item_selector, inside, "ItemSelector")
    return filled(state.item_selector, inside.about(effective), visit.randomness)
