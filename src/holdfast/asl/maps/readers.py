"""Items from objects in S3, or wherever the mapped function finds them: ``ItemReader``.

What reads is a step, so its answer is in the journal and a replay maps over the same items.
"""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from holdfast.asl.definition import Map
from holdfast.asl.errors import ITEM_READER_FAILED, StatesError
from holdfast.asl.jsontext import NotJson, compact, is_array, is_object, read
from holdfast.asl.maps.items import Item
from holdfast.asl.paths import read_definite
from holdfast.asl.templates import evaluated, filled, of_type
from holdfast.asl.visit import Visit

if TYPE_CHECKING:
    from holdfast.asl.frames import Run

MOST_ITEMS: Final = 100_000_000
DELIMITERS: Final = {"COMMA": ",", "PIPE": "|", "SEMICOLON": ";", "SPACE": " ", "TAB": "\t"}
GET_OBJECT: Final = "arn:aws:states:::s3:getObject"
LIST_OBJECTS: Final = "listObjectsV2"
BYTE_ORDER_MARK: Final = "\ufeff"

_limit_lock: Final = threading.Lock()


class ReaderConfig(Struct, frozen=True):
    """A ``ReaderConfig``, evaluated."""

    input_type: str = "JSON"
    headers: tuple[str, ...] | None = None
    delimiter: str = ","
    most_items: int = MOST_ITEMS
    pointer: str = ""
    flattens: bool = False


async def items_read(run: Run, visit: Visit, effective: Any) -> list[Item]:
    """The items that an ``ItemReader`` finds. Raises ``StatesError``, mostly ``States.ItemReaderFailed``."""
    written = cast("dict[str, Any]", cast("Map", visit.state).item_reader)
    config = reader_config(visit, effective, written.get("ReaderConfig") or {})
    given = reader_arguments(visit, effective, written)
    resource = str(written["Resource"])
    reader = _Reader(run, config)
    if LIST_OBJECTS in resource:
        values = await reader.listed(resource, given)
    elif config.input_type == "MANIFEST":
        values = await reader.inventoried(resource, given)
    else:
        values = parse_items(await reader.text_of(resource, given), config)
    items = [
        Item(place, value["Value"], value["Key"]) if isinstance(value, Field) else Item(place, value)
        for place, value in enumerate(values[: config.most_items])
    ]
    visit.note("afterItemsPointer", [item.value for item in items])
    return items


def reader_arguments(visit: Visit, effective: Any, written: dict[str, Any]) -> Any:
    """What the reader's resource is called with: ``Parameters``, or ``Arguments``."""
    if visit.state.jsonata:
        return evaluated(written.get("Arguments") or {}, visit, "ItemReader/Arguments")
    return filled(written.get("Parameters") or {}, visit.about(effective), visit.randomness)


def reader_config(visit: Visit, effective: Any, written: dict[str, Any]) -> ReaderConfig:
    """How the reader reads. Raises ``StatesError`` for a limit that is none."""
    given = written.get("CSVHeaderLocation") == "GIVEN"
    return ReaderConfig(
        input_type=written.get("InputType", "JSON"),
        headers=tuple(written.get("CSVHeaders") or ()) if given else None,
        delimiter=DELIMITERS.get(written.get("CSVDelimiter", "COMMA"), ","),
        most_items=_most_items(visit, effective, written),
        pointer=written.get("ItemsPointer", ""),
        flattens=written.get("Transformation") == "LOAD_AND_FLATTEN",
    )


def _most_items(visit: Visit, effective: Any, written: dict[str, Any]) -> int:
    path = written.get("MaxItemsPath")
    value = written.get("MaxItems", 0) if path is None else read_definite(path, visit.about(effective))
    if path is None and isinstance(value, str):
        value = of_type("number", value, visit, "ItemReader/ReaderConfig/MaxItems")
    if not isinstance(value, int) or isinstance(value, bool):
        told = value if isinstance(value, str) else compact(value)
        raise StatesError(
            ITEM_READER_FAILED, f"The MaxItemsPath field refers to value '{told}' which is not a valid integer: {path}"
        )
    if value < 0:
        raise StatesError(ITEM_READER_FAILED, "field MaxItems must be positive")
    return min(value or MOST_ITEMS, MOST_ITEMS)


class Field(dict[str, Any]):
    """A field of an object that is mapped over: its ``Key`` and ``Value``."""


class _Reader:
    def __init__(self, run: Run, config: ReaderConfig) -> None:
        self._run = run
        self._config = config

    async def fetch(self, resource: str, given: Any) -> Any:
        try:
            return await self._run.tasks.call(self._run, resource, given)
        except StatesError as error:
            raise StatesError(ITEM_READER_FAILED, error.cause) from error

    async def text_of(self, resource: str, given: Any) -> str:
        found = await self.fetch(resource, given)
        body = found.get("Body") if is_object(found) and "Body" in found else found
        return body if isinstance(body, str) else compact(body)

    async def listed(self, resource: str, given: Any) -> Sequence[Any]:
        found = await self.fetch(resource, given)
        objects = found.get("Contents") if is_object(found) else found
        if not is_array(objects):
            raise StatesError(ITEM_READER_FAILED, "The list of objects is no array.")
        if not self._config.flattens:
            return objects
        values: list[Any] = []
        for number, each in enumerate(objects, 1):
            key = _key_in(each, "Key", f"Object {number} of the list")
            text = await self.text_of(GET_OBJECT, {"Bucket": _bucket_in(given), "Key": key})
            values += parse_items(text, self._config)
        return values

    async def inventoried(self, resource: str, given: Any) -> Sequence[Any]:
        """The rows of the files that an S3 inventory lists in its manifest."""
        manifest = parsed_json(await self.text_of(resource, given))
        if not is_object(manifest) or not is_array(manifest.get("files")):
            raise StatesError(ITEM_READER_FAILED, "The manifest lists no files.")
        headers = tuple(name.strip() for name in str(manifest.get("fileSchema", "")).split(","))
        config = ReaderConfig(input_type="CSV", headers=headers)
        named = manifest["destinationBucket"] if "destinationBucket" in manifest else _bucket_in(given)
        bucket = str(named).rpartition(":")[2]
        values: list[Any] = []
        for number, file in enumerate(manifest["files"], 1):
            key = _key_in(file, "key", f"The manifest's file {number}")
            values += parse_items(await self.text_of(GET_OBJECT, {"Bucket": bucket, "Key": key}), config)
        return values


def _key_in(entry: Any, field: str, what: str) -> Any:
    if not is_object(entry) or field not in entry:
        raise StatesError(ITEM_READER_FAILED, f"{what} has no {field}.")
    return entry[field]


def _bucket_in(given: Any) -> Any:
    if not is_object(given):
        raise StatesError(ITEM_READER_FAILED, "The reader's arguments are no object.")
    return given.get("Bucket")


def parse_items(text: str, config: ReaderConfig) -> list[Any]:
    r"""The items in the text of an object. Raises ``StatesError``.

    >>> parse_items("a,b\n1,2\n3", ReaderConfig("CSV"))
    [{'a': '1', 'b': '2'}, {'a': '3', 'b': ''}]
    """
    match config.input_type:
        case "CSV":
            return list(_rows(text, config))
        case "JSONL":
            return [parsed_json(line) for line in text.split("\n") if line.strip()]
        case "JSON":
            return _values(parsed_json(text), config.pointer)
        case other:
            raise StatesError(ITEM_READER_FAILED, f"Items of the type {other} cannot be read here.")


def _rows(text: str, config: ReaderConfig) -> Iterator[dict[str, str]]:
    rows = iter(_table(text.removeprefix(BYTE_ORDER_MARK), config.delimiter))
    nothing: list[str] = []
    headers = list(config.headers) if config.headers is not None else next(rows, nothing)
    if len(set(headers)) < len(headers):
        raise StatesError(ITEM_READER_FAILED, "CSV headers cannot contain duplicates.")
    for row in rows:
        if row:
            cells = row + [""] * (len(headers) - len(row))
            yield dict(zip(headers, cells, strict=False))


def _table(text: str, delimiter: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    with _cells_up_to(len(text)):
        try:
            return list(rows)
        except csv.Error as error:
            wrong = str(error)
            if "new-line character" in wrong:  # how to open a file, in words that change with the release of Python
                wrong = "a carriage return outside of quotes does not end the line."
            raise StatesError(ITEM_READER_FAILED, f"Unable to parse CSV: line {rows.line_num}: {wrong}") from error


@contextmanager
def _cells_up_to(characters: int) -> Generator[None]:
    """Read cells of this length, whatever limit the process has: that one may differ when a replay reads them again."""
    with _limit_lock:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, characters))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _values(value: Any, pointer: str) -> list[Any]:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(name)] if is_array(value) else value[name]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise StatesError(ITEM_READER_FAILED, f"Nothing is at the ItemsPointer {pointer}.") from error
    if is_object(value):
        return [Field(Key=key, Value=each) for key, each in value.items()]
    if not is_array(value):
        raise StatesError(ITEM_READER_FAILED, "Attempting to map over non-iterable node.")
    return value


def parsed_json(text: str) -> Any:
    """The JSON in a text. Raises ``States.ItemReaderFailed``."""
    try:
        return read(text)
    except NotJson as error:
        raise StatesError(ITEM_READER_FAILED, f"Unable to parse JSON: {error}") from error
