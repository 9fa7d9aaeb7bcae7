"""`$keys`, `$distinct` and `$sort` of many values: neither the limit of steps nor a clock ends them in the engine.

The time of the first two grows with the square of the number. The engine does them for a few values, and it alone knows
whether one that is left over stays an array. So the functions here ask for many values only, and answer nothing for the
others. `$sort` compares long texts within one step: it is given a comparison, each of which is a step.
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

LONG_CHARS: Final = 1_000

SIGNATURES: Final = {"$distinct": "<x:x>", "$keys": "<x-:x>", "$sort": "<af?:a>"}
TYPES: Final = {"$distinct": '["array"]', "$keys": '["array", "object"]'}
"""What a function makes an array of."""

QUICK: Final = frozenset(name.removeprefix("$") for name in SIGNATURES)
PARAMETER: Final = re.compile(r"(?:function|λ)\s*\([^)]*\$(?:distinct|keys|sort)\b")

PRELUDE: Final = """$NAME_by_engine := $NAME;
$NAME := function($v)SIGNATURE {($found := $NAME_of_many($v); $exists($found) ? $found : $NAME_by_engine($v))};
$NAME_as_value := function($v) {$type($v) in TYPES ? [$NAME($v)] : $NAME($v)};
"""
"""What is called in the place of a function, and what is handed to other functions in its place: these get an array
from the engine as it is.
"""

SORT: Final = f"""$sort_by_engine := $sort;
$sort := function($v, $f)<af?:a> {{
  $exists($f) ? $sort_by_engine($v, $f)
  : $count($v) > {MANY} and $type($v[0]) = "string" and $max($v.$length()) > {LONG_CHARS}
    ? $sort_by_engine($v, function($l, $r) {{$l > $r}})
  : $sort_by_engine($v)
}};
"""


def quicker(source: str, found: Sequence[Token]) -> str:
    """The expression with other functions in the place of these, unless it defines some itself."""
    used = {token.text for token in found if token.text in SIGNATURES}
    if not used or PARAMETER.search(source):
        return source
    if any(token.text in used and _follows(found, place, ":=") for place, token in enumerate(found)):
        return source
    pieces: list[str] = []
    end = 0
    for place, token in enumerate(found):
        if token.text in used and token.text in TYPES and _is_handed_over(found, place):
            pieces += [source[end : token.position], f"{token.text}_as_value"]
            end = token.position + len(token.text)
    return "".join(["(", *map(_prelude, sorted(used)), *pieces, source[end:], ")"])


def _prelude(name: str) -> str:
    if name not in TYPES:
        return SORT
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
