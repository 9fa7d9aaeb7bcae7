"""Keys, ids, names and texts that users give, checked: from most of them the places of items are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.errors import InvalidInput

SEPARATOR: Final = "#"
"""Separates the parts of a key in the store, so no part may contain it."""

IMPORT_PARTITION: Final = "import#"
"""Its head exists while an import is under way: items come in any order. Its body is the checksum of the file."""

EXECUTIONS: Final = "wf#"
"""How the partitions of executions begin."""

ACTORS: Final = "actor#"
"""How the partitions of actors begin."""

OUTBOXES: Final = "out#"
"""How the partitions of outboxes of events begin."""

QUEUES: Final = "flow#"
"""How the partitions of queues begin."""

LIMITS: Final = "limit#"
"""How the partitions of limits begin."""

LISTED: Final = (EXECUTIONS, ACTORS, OUTBOXES)
"""How the partitions begin whose heads are listed."""

LONGEST_PART_CHARACTERS: Final = 500
LONGEST_KEY_BYTES: Final = 900
"""All parts of a key together, in UTF-8: with its prefix a sort key stays below DynamoDB's 1,024 bytes."""


LONGEST_ID_BYTES: Final = 500
"""The limit of an id in UTF-8, which DynamoDB counts. With the longest names around it, and twice where the key of one
entity contains that of another, partitions stay below its 2,048 bytes and sort keys below its 1,024."""

LONGEST_NAME_CHARACTERS: Final = 100

LONGEST_REASON_BYTES: Final = 1_024
LONGEST_SIGNAL_NAME_BYTES: Final = 1_024
"""They are kept in heads and journals, which are read whole."""

LARGEST_PAGE: Final = 1_000
"""The most that one page of a list may have."""


def check_id(what: str, id: str) -> str:
    """An id that a user gives: printable text, bounded, not empty. Raises ``InvalidInput``.

    >>> check_id("a request_id", "order-17")
    'order-17'
    """
    given: Any = id  # users without a type checker
    if not isinstance(given, str):
        raise InvalidInput(f"{what} must be text (str), got {repr(given)[:60]} ({type(given).__name__})")
    if not given or not given.isprintable() or len(given.encode()) > LONGEST_ID_BYTES:
        raise InvalidInput(
            f"{what} must have 1 to {LONGEST_ID_BYTES} printable characters, and at most as many bytes of UTF-8, got "
            f"{repr(given)[:60]}. For a longer one use a digest"
        )
    return given


def check_printable(what: str, text: str) -> None:
    """Check that text for lists and terminals has no control characters. Raises ``InvalidInput``."""
    if not text.isprintable():
        raise InvalidInput(f"{what} holds characters that cannot be printed: {text[:60]!r}")


def check_key(what: str, parts: Sequence[str]) -> tuple[str, ...]:
    """The parts of a key, checked: printable text without ``#``, bounded. Raises ``InvalidInput``.

    >>> check_key("document", ["customer-7", "order-17"])
    ('customer-7', 'order-17')
    """
    if not parts:
        raise InvalidInput(f"a {what} has a key: give it one part of text, or several")
    for part in parts:
        check_part(what, part)
        if not part:
            raise InvalidInput(f"no part of a {what}'s key is empty: {tuple(parts)!r}"[:200])
    if sum(len(part.encode()) for part in parts) + len(parts) > LONGEST_KEY_BYTES:
        raise InvalidInput(f"the key of a {what} is over {LONGEST_KEY_BYTES} bytes of UTF-8")
    return tuple(parts)


def check_part(what: str, part: str) -> str:
    """A part of a key, or the beginning of one. Raises ``InvalidInput``."""
    given: Any = part  # users without a type checker
    if (
        not isinstance(given, str)
        or len(given) > LONGEST_PART_CHARACTERS
        or not given.isprintable()
        or SEPARATOR in given
    ):
        raise InvalidInput(
            f"each part of a {what}'s key must be printable text without {SEPARATOR!r} of at most "
            f"{LONGEST_PART_CHARACTERS} characters, got {repr(given)[:60]}"
        )
    return given


def check_name(kind: str, name: str) -> None:
    """Raise ``InvalidInput`` unless a name can be part of a key: short, printable, and without its separators."""
    given: Any = name  # users without a type checker
    if (
        not isinstance(given, str)
        or not name
        or len(name) > LONGEST_NAME_CHARACTERS
        or not name.isprintable()
        or set(name) & set("#/!")
    ):
        raise InvalidInput(
            f"{'an' if kind == 'app' else 'a'} {kind}'s name must have 1 to {LONGEST_NAME_CHARACTERS} printable "
            f"characters and none of # / !, got {name!r}"
        )


def check_text(what: str, text: str) -> str:
    """What is stored as text is text: a message of another type could never be read again."""
    given: Any = text  # whatever its annotation says
    if not isinstance(given, str):
        raise InvalidInput(f"{what} is text, not {given!r}")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} holds half a surrogate pair, which is no text: {given!r}") from None
    return text


def check_reason(what: str, reason: str) -> str:
    """The reason for an end, which is kept and shown: text, bounded. Raises ``InvalidInput``."""
    return _check_bytes(f"the reason of {what}", check_text(f"the reason of {what}", reason), LONGEST_REASON_BYTES)


def check_signal_name(name: str) -> str:
    """The name of a signal that is sent from outside: printable text, bounded. Raises ``InvalidInput``."""
    check_printable("a signal's name", check_text("a signal's name", name))
    return _check_bytes("a signal's name", name, LONGEST_SIGNAL_NAME_BYTES)


def _check_bytes(what: str, text: str, most_bytes: int) -> str:
    size_bytes = len(text.encode())
    if size_bytes > most_bytes:
        raise InvalidInput(f"{what} has {size_bytes:,} bytes of UTF-8, and at most {most_bytes:,}: {text[:60]!r}…")
    return text


def check_limit(limit: int, name: str = "limit") -> None:
    """Raise ``InvalidInput`` unless a page may be so large. ``name`` is what the caller gave it as."""
    wanted: Any = limit  # whatever its annotation says
    if not isinstance(wanted, int) or not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"{name} must be 1 to {LARGEST_PAGE}, got {limit}")
