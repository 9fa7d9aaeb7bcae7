"""The functions that AWS adds to JSONata: `$partition $range $hash $random $uuid $parse`.

A function gets ``None`` for an argument that is undefined, and returns ``None`` for an undefined result.

Source: https://docs.aws.amazon.com/step-functions/latest/dg/transforming-data.html, "JSONata functions provided by Step
Functions".
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from holdfast.asl.jsonata_integers import large_numbers, large_parsed
from holdfast.asl.jsonata_quicker import distinct_of_many, keys_of_many
from holdfast.asl.jsontext import NotJson, read

RANGE_ITEMS: Final = 1_000_000
ALGORITHMS: Final = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}

JAVA_FACTOR: Final = 0x5DEECE66D
JAVA_ADDED: Final = 0xB
JAVA_MASK: Final = (1 << 48) - 1

Function = Callable[..., Any]


class BadArgument(Exception):
    """A function cannot work with an argument. The message is for the cause of the state's failure."""


def partition(items: list[Any] | None, size: float | None) -> list[list[Any]] | None:
    """``items`` in chunks of ``size``; undefined for no items, and for a size below one."""
    if not items or size is None or int(size) < 1:
        return None
    return [items[start : start + int(size)] for start in range(0, len(items), int(size))]


def range_(first: float | None, last: float | None, step: float | None) -> list[int] | int | None:
    """The numbers from ``first`` to ``last``, both included. One number is no array, as in every JSONata sequence."""
    if first is None or last is None or step is None or int(step) == 0:
        return None
    numbers = range(int(first), int(last) + (1 if step > 0 else -1), int(step))
    if len(numbers) > RANGE_ITEMS:
        raise BadArgument(f"$range would make {len(numbers)} numbers; the most are {RANGE_ITEMS}")
    return numbers[0] if len(numbers) == 1 else list(numbers) or None


def hash_(text: str | None, algorithm: str | None) -> str | None:
    """The digest of the text's UTF-8, in hexadecimal digits."""
    if text is None or algorithm is None:
        return None
    name = ALGORITHMS.get(algorithm)
    if name is None:
        raise BadArgument(f"$hash knows no algorithm {algorithm!r}; it knows {', '.join(ALGORITHMS)}")
    return hashlib.new(name, text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def parse(text: str | None) -> Any:
    """The value of a JSON text. It stands in for JSONata's `$eval`, which is switched off."""
    if text is None:
        return None
    try:
        value = read(text)
    except NotJson as error:
        raise BadArgument(f"$parse was given what is not JSON: {error}") from error
    if (large := large_parsed.get()) is not None:
        large.extend(large_numbers(value))
    return value


CONSTANT: Final[Mapping[str, tuple[Function, str]]] = {
    "partition": (partition, "<a?n?:a>"),
    "range": (range_, "<n?n?n?:x>"),
    "hash": (hash_, "<s?s?:s>"),
    "parse": (parse, "<s?:x>"),
    "keys_of_many": (keys_of_many, "<x:x>"),
    "distinct_of_many": (distinct_of_many, "<x:x>"),
}
"""By name: the functions that depend on their arguments alone, each with its JSONata signature."""


def seeded(seed: int) -> float:
    """``$random(seed)``: the first double of ``java.util.Random``, as those find it who have tried Step Functions.

    https://github.com/floci-io/floci/issues/2662,
    https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Random.html#nextDouble()

    >>> seeded(42)
    0.7275636800328681
    """
    first = (((seed ^ JAVA_FACTOR) & JAVA_MASK) * JAVA_FACTOR + JAVA_ADDED) & JAVA_MASK
    second = (first * JAVA_FACTOR + JAVA_ADDED) & JAVA_MASK
    return ((first >> 22 << 27) + (second >> 21)) * 2.0**-53


def drawing(seed: int) -> dict[str, Function]:
    """`$random` and `$uuid` of one evaluation: the same seed draws the same values in the same order."""
    source = Random(seed)

    def random(*seeds: object) -> float:
        match seeds:
            case () | (None,):
                return source.random()
            case (int() | float() as given,) if not isinstance(given, bool):
                return seeded(int(given))
            case _:
                position = min(len(seeds), 2)
                raise BadArgument(f'T0410: Argument {position} of function "random" does not match function signature')

    def uuid_(*arguments: object) -> str:
        if arguments:
            raise BadArgument('T0410: Argument 1 of function "uuid" does not match function signature')
        return str(uuid.UUID(int=source.getrandbits(128), version=4))

    return {"random": random, "uuid": uuid_}
