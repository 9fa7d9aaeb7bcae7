"""The regular expressions of JSONPath's filters. JSONata's engine matches them, because it stops by the clock: Python's
``re`` may backtrack without end. Their syntax is that of ECMAScript, as in JSONata.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final

from msgspec import Struct

from holdfast.asl import jsonata
from holdfast.asl.errors import RUNTIME, EvaluationError
from holdfast.asl.path_tokens import InvalidPath
from holdfast.clock import busy_seconds
from holdfast.errors import ConfigurationError

_PIECE: Final = re.compile(
    r"(?P<opening>\[\^?+)(?P<inside>\]?+(?:\\.|[^\]\\])*+)(?P<closing>\]?)|\{\d+(?:,\d*)?\}|\\.|.", re.DOTALL
)
"""A class of characters, whose first one may be a closing bracket; how often something comes; any other piece."""
_SPECIAL: Final = re.compile(r"\\.|[(\[{})\]]", re.DOTALL)
_ESCAPES: Final = frozenset("bBcdDfknrsStuvwWx")
"""The letters that mean something behind a backslash. The engine takes any other one for itself."""
_ends: ContextVar[float] = ContextVar("when the regular expressions of a path have to be done")


class Pattern(Struct, frozen=True):
    """A compiled pattern. ``expression`` is the expression of JSONata that says whether it fits ``$text``."""

    expression: str

    def fits(self, text: str) -> bool:
        """Whether it fits the whole text. Raises ``TimeoutError`` when the time of the path is over."""
        left = _ends.get() - busy_seconds()
        if left <= 0:
            raise TimeoutError
        return jsonata.holds(self.expression, text, left)


def pattern(source: str, *, any_case: bool) -> Pattern:
    """The pattern between two slashes. Raises ``InvalidPath``. Without the engine it is not checked here."""
    pieces = "".join(_pieces(source))
    try:
        with suppress(ConfigurationError, TimeoutError):
            jsonata.holds(f"($pattern := /{pieces}/; true)", "", jsonata.SECONDS)  # compiles it, no more
    except jsonata.InvalidExpression as refused:
        raise InvalidPath(f"the regular expression /{source}/ cannot be read") from refused
    return Pattern(f"$contains($text, /^(?:{pieces})$/{'i' if any_case else ''})")


@contextmanager
def limited(path: str) -> Generator[None]:
    """End what a path does with regular expressions after ``SECONDS``, all its values and filters together.

    Raises ``EvaluationError``.
    """
    before = _ends.set(busy_seconds() + jsonata.SECONDS)
    try:
        yield
    except TimeoutError as late:
        told = f"its regular expression takes more than {jsonata.SECONDS:g} seconds"
        raise EvaluationError(RUNTIME, f"Invalid path '{path}' : {told}") from late
    finally:
        _ends.reset(before)


def _pieces(source: str) -> Iterator[str]:
    """The pattern as the engine finds its end: that counts brackets, and is led astray by two backslashes."""
    for piece in _PIECE.finditer(source):
        if piece["opening"]:
            yield piece["opening"] + _SPECIAL.sub(_escaped, piece["inside"]) + piece["closing"]
        elif piece[0][0] == "\\" or piece[0] in ("{", "}", "]"):
            yield _SPECIAL.sub(_escaped, piece[0])
        else:
            yield piece[0]


def _escaped(found: re.Match[str]) -> str:
    """An escape that the engine understands, or a bracket that stands for itself. Raises ``InvalidPath``."""
    text = found[0]
    if len(text) == 1:
        return "\\" + text
    if text[1].isascii() and text[1].isalpha() and text[1] not in _ESCAPES:
        raise InvalidPath(f"a regular expression has {text}, which is not known")
    return r"\x5C" if text[1] == "\\" else text
