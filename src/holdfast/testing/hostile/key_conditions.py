"""Which items a ``Query`` asks for: its conditions on keys, and the order of its answer.

The grammar is small: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.KeyConditionExpressions.html
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from holdfast.testing.hostile.tables import Item

COMPARED: Final = re.compile(r"(?P<name>[\w#.]+)\s*(?P<operator><=|>=|=|<|>)\s*(?P<value>:\w+)")
BETWEEN: Final = re.compile(r"(?P<name>[\w#.]+)\s+BETWEEN\s+(?P<first>:\w+)\s+AND\s+(?P<last>:\w+)", re.IGNORECASE)
BEGINS: Final = re.compile(r"begins_with\s*\(\s*(?P<name>[\w#.]+)\s*,\s*(?P<value>:\w+)\s*\)", re.IGNORECASE)

Rank = tuple[int, Decimal | bytes]
"""By what values of one type are ordered."""


def rank(value: Mapping[str, Any]) -> Rank:
    """The rank of a value of a key."""
    match value:
        case {"N": number}:
            return 0, Decimal(number)
        case {"B": binary}:
            return 1, base64.b64decode(binary)
        case _:
            return 2, str(next(iter(value.values()))).encode()


class Condition(Struct, frozen=True):
    """A value of an attribute lies in a range, or begins with ``first``."""

    attribute: str
    operator: str
    first: Mapping[str, Any]
    last: Mapping[str, Any] = {}

    def holds(self, item: Item) -> bool:
        """Whether it does, for an item."""
        value = item.get(self.attribute)
        if value is None or value.keys() != self.first.keys():
            return False
        found, first = rank(value), rank(self.first)
        match self.operator:
            case "=":
                return found == first
            case "<":
                return found < first
            case "<=":
                return found <= first
            case ">":
                return found > first
            case ">=":
                return found >= first
            case "between":
                return first <= found <= rank(self.last)
            case _:
                begin = first[1]
                return isinstance(begin, bytes) and isinstance(found[1], bytes) and found[1].startswith(begin)


def conditions_of(parameters: Mapping[str, Any]) -> Sequence[Condition]:
    """The conditions of a ``Query``; those of a ``Scan`` are none."""
    rest = parameters.get("KeyConditionExpression", "")
    names, values = parameters.get("ExpressionAttributeNames", {}), parameters.get("ExpressionAttributeValues", {})
    found: list[Condition] = []

    def take(operator: str, match: re.Match[str], first: str, last: str = "") -> str:
        name = names.get(match["name"], match["name"])
        found.append(Condition(name, operator, values[match[first]], values[match[last]] if last else {}))
        return ""

    rest = BETWEEN.sub(lambda match: take("between", match, "first", "last"), rest)
    rest = BEGINS.sub(lambda match: take("begins", match, "value"), rest)
    COMPARED.sub(lambda match: take(match["operator"], match, "value"), rest)
    return found
