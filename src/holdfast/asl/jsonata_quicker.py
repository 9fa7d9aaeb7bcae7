"""`$keys` and `$distinct` of many values: in the engine their time grows with the square of the number, and neither the
limit of steps nor a clock ends them.

The engine does them for a few values, and it alone knows whether one that is left over stays an array. So the functions
here ask for many values only, and answer nothing for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.asl.jsonata_reading import Token
from holdfast.asl.jsontext import is_array, is_object

MANY: Final = 200
FEW: Final = 8

SIGNATURES: Final = {"$distinct": "<x:x>", "$keys": "<x-:x>"}
TYPES: Final = {"$distinct": '["array"]', "$keys": '["array", "object"]'}
"""What a function makes an array of."""

QUICK: Final = frozenset(name.removeprefix("$") for name in SIGNATURES)
PARAMETER: Final = re.compile(r"(?:function|λ)\s*\([^)]*\$(?:distinct|keys)\b")

PRELUDE: Final = """$NAME_by_engine := $NAME;
$NAME := function($v)SIGNATURE {($found := $NAME_of_many($v); $exists($found) ? $found : $NAME_by_engine($v))};
$NAME_as_value := function($v) {$type($v) in TYPES ? [$NAME($v)] : $NAME($v)};
"""
"""What is called in the place of a function, and what is handed to other functions in its place: these get an array
from the engine as it is.
"""


def quicker(source: str, found: Sequence[Token]) -> str:
    """The expression with other functions in the place of these two, unless it defines some itself."""
    used = {token.text for token in found if token.text in SIGNATURES}
    if not used or PARAMETER.search(source):
        return source
    if any(token.text in used and _follows(found, place, ":=") for place, token in enumerate(found)):
        return source
    pieces: list[str] = []
    end = 0
    for place, token in enumerate(found):
        if token.text in used and _is_handed_over(found, place):
            pieces += [source[end : token.position], f"{token.text}_as_value"]
            end = token.position + len(token.text)
    return "".join(["(", *map(_prelude, sorted(used)), *pieces, source[end:], ")"])


def _prelude(name: str) -> str:
    return PRELUDE.replace("$NAME", name).replace("SIGNATURE", SIGNATURES[name]).replace("TYPES", TYPES[name])


def _is_handed_over(found: Sequence[Token], place: int) -> bool:
    return not (_follows(found, place, "(") or _precedes(found, place, "~>") or _precedes(found, place, ":="))


def _follows(found: Sequence[Token], place: int, text: str) -> bool:
    return "".join(token.text for token in found[place + 1 : place + 1 + len(text)]) == text


def _precedes(found: Sequence[Token], place: int, text: str) -> bool:
    return "".join(token.text for token in found[max(0, place - len(text)) : place]) == text


def keys_of_many(value: Any) -> list[str] | None:
    """The names of the fields of an object, or of the objects in an array, each once, if they are many."""
    names = list(_names_in(value))
    different = list(dict.fromkeys(names))
    return different if len(names) > MANY and len(different) > FEW else None


def _names_in(value: Any) -> Iterator[str]:
    if is_object(value):
        yield from value
    elif is_array(value):
        for inner in value:
            yield from _names_in(inner)


def distinct_of_many(value: Any) -> list[Any] | None:
    """The different ones of the values in an array, if they are many."""
    if not is_array(value) or len(value) <= MANY:
        return None
    different: dict[bytes, Any] = {}
    try:
        for each in value:
            different.setdefault(msgspec.json.encode(each, order="sorted"), each)
    except TypeError:  # there is a function among them, which has no JSON form
        return None
    return list(different.values()) if len(different) > FEW else None
