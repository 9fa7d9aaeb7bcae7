"""Numbers chosen to have one hash: the time to build a set or a dict of them grows with the square of their count.

Python draws the hash of text again for each process, but the hash of a number is the number modulo
``sys.hash_info.modulus``: anyone who knows that can make any number of numbers with one hash. There are too few whole
numbers of 64 bits, and floats, for it. Longer ones, decimals and UUIDs, which are numbers of 128 bits, are enough.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Final, cast

MOST_ALIKE: Final = 100
"""How many numbers with the hash of another one are accepted; by chance there is hardly ever one."""

_LONG_NUMBER: Final = re.compile(r"[-+.\w]{17,}")
"""Text that may be a UUID, or a number to ``Decimal``: digits of any script, with underscores anywhere. All
of it: a part of a longer number has another hash.
"""

_OTHER_ESCAPE: Final = re.compile(r"\\(?!u[0-9A-Fa-f]{4})")

_HEXADECIMAL_DIGITS: Final = 32


def numbers_collide(text: bytes) -> bool:
    """Whether more than ``MOST_ALIKE`` numbers in a JSON text have the hash of another one: of one, or of many.

    >>> numbers_collide(str([n * (2**61 - 1) for n in range(16, 200)]).encode())
    True
    """
    if len(text) <= MOST_ALIKE * 17:
        return False
    plain = text.decode(errors="replace")
    if "\\u" in plain:
        plain = _without_escapes(plain)
    seen: set[int] = set()
    alike = 0
    for number in set(_LONG_NUMBER.findall(plain)):
        for residue in _hashes_of(number):
            alike += residue in seen
            if alike > MOST_ALIKE:
                return True
            seen.add(residue)
    return False


def _without_escapes(text: str) -> str:
    """The text in which each character escaped by its number is unescaped: numbers need no other escape."""
    within_quotes = _OTHER_ESCAPE.sub(" ", text).replace('"', " ")
    return cast("str", json.loads(f'"{within_quotes}"', strict=False))


def _hashes_of(number: str) -> Iterator[int]:
    """Its hash as a UUID, and as a decimal: many texts are both, and the type that reads the text is not known here."""
    digits = number.replace("-", "")
    if len(digits) == _HEXADECIMAL_DIGITS and len(number) in {_HEXADECIMAL_DIGITS, _HEXADECIMAL_DIGITS + 4}:
        with suppress(ValueError):
            yield int(digits, 16) % sys.hash_info.modulus
    with suppress(InvalidOperation):
        yield hash(Decimal(number))
