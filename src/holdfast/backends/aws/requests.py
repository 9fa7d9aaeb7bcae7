"""Writes as requests: one item by PutItem, UpdateItem or DeleteItem, several by TransactWriteItems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from holdfast.backends.aws.conditions import Term, Words, guarded
from holdfast.backends.aws.enclosing import MOST_BYTES, Action, count_of
from holdfast.backends.aws.layout import (
    DEFAULT_PARTS,
    STREAMED,
    Attributes,
    check_size,
    encode,
    is_streamed,
    key,
    number,
    part_of,
    size_bytes,
    text,
    ttl_seconds,
)
from holdfast.backends.aws.packing import ATTRIBUTES, packed
from holdfast.errors import InvalidInput, PayloadTooLarge
from holdfast.items import EXISTS, HEAD, AllOf, Bounds, Delete, Put, Update, Write

LARGEST_TRANSACTION_ITEMS: Final = 100
LARGEST_TRANSACTION_BYTES: Final = 4 * 1024 * 1024

BOUNDS: Final = Bounds(writes=LARGEST_TRANSACTION_ITEMS, body_bytes=LARGEST_TRANSACTION_BYTES * 3 // 4)
"""The most that one call of the store takes; a quarter is left for keys and headers, a few kilobytes each.

("TransactWriteItems", API reference: up to 100 actions, and no more than 4 MB of items.)
"""


class Request(Struct, frozen=True):
    """A request: an operation of DynamoDB, its parameters, and the bytes it writes, which are billed."""

    operation: str
    parameters: dict[str, Any]
    sizes: tuple[int, ...]


class Writing(Struct, frozen=True):
    """How writes become requests: to which table, under which nonce, at what time (milliseconds), with how many parts
    of the index, and until when (milliseconds) the stream covers what is due, if it covers anything.
    """

    table: str
    nonce: bytes
    token: str
    now: int = 0
    parts: int = DEFAULT_PARTS
    streamed_until: int | None = None

    def one(self, action: Action) -> Request:
        """The request for what is asked of a single item. A refusal carries the existing item."""
        operation, parameters, size = self._prepared(action)
        if isinstance(action.write, Update) and action.write.load:
            parameters["ReturnValues"] = "ALL_NEW"
        return Request(f"{operation}Item", parameters | {"ReturnConsumedCapacity": "TOTAL"}, (size,))

    def several(self, actions: Sequence[Action]) -> Request:
        """The request for several items, all or nothing; it costs twice as much as single ones.

        Raises ``InvalidInput`` and ``PayloadTooLarge`` over the limits of DynamoDB.
        """
        if len(actions) > LARGEST_TRANSACTION_ITEMS:
            raise InvalidInput(
                f"{len(actions)} items at once: DynamoDB writes at most {LARGEST_TRANSACTION_ITEMS} together. Nothing "
                "was written"
            )
        prepared = [self._prepared(action) for action in actions]
        sizes = tuple(size for _, _, size in prepared)
        if sum(sizes) > LARGEST_TRANSACTION_BYTES:
            raise PayloadTooLarge(
                f"writes of {sum(sizes):,} bytes at once: DynamoDB applies at most {LARGEST_TRANSACTION_BYTES:,} "
                "together. Nothing was written"
            )
        parameters = {
            "TransactItems": [{operation: parameters} for operation, parameters, _ in prepared],
            "ClientRequestToken": self.token,
            "ReturnConsumedCapacity": "TOTAL",
        }
        return Request("TransactWriteItems", parameters, sizes)

    def _prepared(self, action: Action) -> tuple[str, dict[str, Any], int]:
        words, write = Words(), action.write
        match write:
            case Put(item, when):
                wire = encode(item, self.nonce, self.parts, self.streamed_until, created_at=self.now) | enclosed(action)
                operation, size = "Put", size_bytes(wire)
                parameters: dict[str, Any] = {"Item": wire}
            case Update():
                # An update creates no missing item, whatever its condition says.
                operation, when = "Update", AllOf((EXISTS, write.when))
                change = _Change(write, words, self)
                change.enclose(action)
                size = change.size
                parameters = {"Key": key(write.partition, write.sort), "UpdateExpression": change.expression}
            case Delete(partition, sort, when):
                operation, size = "Delete", 0
                parameters = {"Key": key(partition, sort)}
        parameters["TableName"] = self.table
        parameters["ConditionExpression"] = guarded(when, self.nonce, words, *_terms(action, words))
        parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return operation, parameters | words.parameters(), size


def enclosed(action: Action) -> Attributes:
    """The attributes of the messages that a new head encloses."""
    messages: Attributes = {item.sort: {"B": item.body} for _, item in action.adds}
    return messages | {name: number(count) for name, count in action.counted.items()}


def _terms(action: Action, words: Words) -> Sequence[Term]:
    """The conditions of the messages that an action encloses and removes, next to those of its write."""
    if not isinstance(action.write, Update):
        return []  # a new head encloses nothing yet
    coming = (*action.adds, *action.separate)
    missing = [item.sort for _, item in coming]
    missing += sorted({count_of(item.sort) for _, item in action.adds})
    terms = [Term(f"attribute_not_exists({words.name(each)})") for each in missing]
    terms += [Term(f"attribute_exists({words.name(sort)})") for _, sort in action.removes]
    if action.adds:
        count, most = words.name("lc"), words.value(number(MOST_BYTES))
        terms.append(Term(f"attribute_not_exists({count}) OR {count} <= {most}", is_compound=True))
    return terms


def enters_index(write: Write) -> bool:
    """Whether a write may put a head into the index, or move it there."""
    match write:
        case Put(item, _):
            return item.sort == HEAD and item.due_at is not None
        case Update():
            return write.sort == HEAD and write.due_at is not UNSET and write.due_at is not None
        case Delete():
            return False


class _Change:
    """The ``UpdateExpression`` of an update, put together from what it sets, adds and removes."""

    def __init__(self, update: Update, words: Words, writing: Writing) -> None:
        self._words = words
        self._sort = update.sort
        self._sets: dict[str, str] = {}
        self._removed: list[str] = []
        self._part = part_of(update.partition, writing.parts) if update.sort == HEAD else None
        self._streamed_until = writing.streamed_until
        self._new: Attributes = key(update.partition, update.sort)
        self._set("n", {"B": writing.nonce})
        self._plain("st", UNSET if update.status is UNSET else (update.status or None), text)
        self._plain("o", update.owner, text)
        self._plain("lu", update.lease_until, number)
        self._due(update.due_at)
        self._expiry(update.expires_at)
        if update.body is not UNSET:
            self._body(update.body)
        self._added = {"r": update.add_revision, "e": update.add_epoch}
        self._place = (update.partition, update.sort)

    @property
    def size(self) -> int:
        """The bytes that it writes, at least."""
        size = size_bytes(self._new)
        check_size(size, *self._place)
        return size

    def enclose(self, action: Action) -> None:
        """Enclose the messages of an action in this head, and take out those that it removes."""
        for _, item in action.adds:
            self._set(item.sort, {"B": item.body})
        self._removed += [sort for _, sort in action.removes]
        self._added |= action.counted

    @property
    def expression(self) -> str:
        words = self._words
        clauses = ["SET " + ", ".join(f"{words.name(name)} = {value}" for name, value in self._sets.items())]
        if self._removed:
            clauses.append("REMOVE " + ", ".join(words.name(name) for name in self._removed))
        if added := [f"{words.name(name)} {words.value(number(by))}" for name, by in self._added.items() if by]:
            clauses.append("ADD " + ", ".join(added))
        return " ".join(clauses)

    def _set(self, name: str, value: dict[str, Any]) -> None:
        self._sets[name] = self._words.value(value)
        self._new[name] = value

    def _plain(self, name: str, value: Any, typed: Any) -> None:
        if value is None:
            self._removed.append(name)
        elif value is not UNSET:
            self._set(name, typed(value))

    def _due(self, due_at: int | UnsetType | None) -> None:
        self._plain("d", due_at, number)
        if self._part is None or due_at is UNSET:
            return
        streamed = is_streamed(due_at, self._streamed_until)
        self._plain("q", None if due_at is None or streamed else self._part, text)
        if streamed:
            self._set("w", STREAMED)
        else:
            self._removed.append("w")

    def _expiry(self, expires_at: int | UnsetType | None) -> None:
        self._plain("xm", expires_at, number)
        if expires_at is not UNSET:
            self._plain("x", None if expires_at is None else ttl_seconds(expires_at, self._sort), number)

    def _body(self, body: bytes) -> None:
        name, value = packed(body)
        self._removed += [other for other in ATTRIBUTES if other != name]
        if value:
            self._set(name, {"B": value})
        else:
            self._removed.append(name)
