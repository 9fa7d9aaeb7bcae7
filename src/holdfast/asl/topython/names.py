"""Names of Python for the names of a machine: of states, resources, variables and errors."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from typing import Final

_USED: Final = (
    "hf asyncio json base64 hashlib datetime Any Awaitable Callable Coroutine app data result given error item index "
    "items batch state original value ONCE ERRORS BROKEN caught retried together text put has is_number is_text "
    "not_converted until self"
)
RESERVED: Final = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *_USED.split(), "dict", "list", "match", "case"}
)
"""What a generated module means something else by."""


class Names:
    """The names that a module has given so far."""

    def __init__(self, taken: Iterable[str] = RESERVED) -> None:
        self._taken = set(taken)

    def copy(self) -> Names:
        """The same names, to go on from."""
        return Names(self._taken)

    def function(self, wanted: str) -> str:
        """A new name in lower case with underscores."""
        return self._new(snake(wanted) or "state", "_{}")

    def error(self, wanted: str) -> str:
        """A new name of a class."""
        return self._new(camel(wanted) or "Error", "{}")

    def _new(self, wanted: str, more: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = wanted + more.format(number)
        self._taken.add(name)
        return name


def snake(text: str) -> str:
    """The words of a text in lower case, with underscores.

    >>> snake("Charge the card"), snake("validateCart"), snake("2nd try"), snake("é")
    ('charge_the_card', 'validate_cart', 'state_2nd_try', '')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    name = re.sub(r"[^0-9a-z]+", "_", words.lower()).strip("_")
    return f"state_{name}" if name[:1].isdigit() else name


def camel(text: str) -> str:
    """The words of a text together, each with a capital letter.

    >>> camel("CardDeclined"), camel("Lambda.TooManyRequestsException"), camel("404")
    ('CardDeclined', 'LambdaTooManyRequestsException', 'Error404')
    """
    parts = [part for part in re.split(r"[^0-9A-Za-z]+", text) if part]
    name = "".join(part[0].upper() + part[1:] for part in parts)
    return f"Error{name}" if name[:1].isdigit() else name


def printable(text: str) -> str:
    r"""The text as a comment may hold it: in one line, without characters that cannot be seen.

    >>> printable("a\n  b\u202e")
    'a b'
    """
    return "".join(each for each in " ".join(text.split()) if each.isprintable())
