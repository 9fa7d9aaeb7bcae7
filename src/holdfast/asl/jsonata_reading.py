"""What can be said of a JSONata expression by its text: its tokens, and what AWS's version of JSONata has not.

The engine understands JSONata 2.2; Step Functions has 2.0.6, without the operators ``?:`` and ``??``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

OPENING: Final = "{%"
CLOSING: Final = "%}"

SKIPPED = re.compile(r"(?:\s+|/\*.*?\*/)+", re.DOTALL)
REGEX = re.compile(r"/(?:\\.|[^/\\])+/[a-z]*", re.DOTALL)
LAMBDA = re.compile(r"(?:function|λ)\s*\([^)]*\)\s*<[^{]*>(?=\s*\{)")
TOKEN = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)"""
    r"""|(?P<name>\${0,2}\w+|\${1,2})"""
    r"""|(?P<symbol>\?\?|\?:|.)""",
    re.DOTALL,
)
OPERATORS_IN_LETTERS: Final = frozenset({"and", "or", "in"})
CLOSERS: Final = frozenset(")]}")

PLAIN_PATH = re.compile(r"\$(?P<variable>[A-Za-z_]\w*)(?P<fields>(?:\.[A-Za-z_]\w*)*)")

NUMBER: Final = re.compile(r"\d+(?P<fraction>(?:\.\d+)?[eE][+-]?\d+|\.\d+)?")
LONGEST_WHOLE: Final = 300
"""Digits: more are no double, and Python reads no text of thousands of them."""

LATER_OPERATORS: Final = {
    "?:": 'S0211: The symbol ":" cannot be used as a unary operator',
    "??": 'S0211: The symbol "?" cannot be used as a unary operator',
}
"""Operators of JSONata 2.1, and what a parser of JSONata 2.0 says about each."""


class Token(NamedTuple):
    """A piece of an expression. ``kind`` is ``text``, ``name``, ``symbol``, ``regex`` or ``lambda``."""

    kind: str
    text: str
    position: int

    @property
    def is_operand(self) -> bool:
        """Whether a slash behind it divides; behind anything else it begins a regular expression."""
        match self.kind:
            case "name":
                return self.text not in OPERATORS_IN_LETTERS
            case "symbol":
                return self.text in CLOSERS
            case _:
                return True


def expression_in(text: str) -> str | None:
    """The expression in ``{% … %}``, without blanks around it; ``None`` for text that is meant literally."""
    whole = len(text) >= len(OPENING) + len(CLOSING) and text.startswith(OPENING) and text.endswith(CLOSING)
    return text[len(OPENING) : -len(CLOSING)].strip() if whole else None


def tokens(source: str) -> Iterator[Token]:
    """The tokens of an expression that the engine has parsed already, so that each begun one ends."""
    position, before = 0, None
    while position < len(source):
        if skipped := SKIPPED.match(source, position):
            position = skipped.end()
            continue
        token = next_token(source, position, before)
        yield token
        position, before = position + len(token.text), token


def next_token(source: str, position: int, before: Token | None) -> Token:
    """The token at ``position``; what a slash is depends on the token before it."""
    if (
        source[position] == "/"
        and (before is None or not before.is_operand)
        and (regex := REGEX.match(source, position))
    ):
        return Token("regex", regex[0], position)
    if typed := LAMBDA.match(source, position):
        return Token("lambda", typed[0], position)
    match = TOKEN.match(source, position)
    assert match, "any character is a symbol"
    assert match.lastgroup
    return Token(match.lastgroup, match[0], position)


def without_context(source: str, found: Iterable[Token]) -> str:
    """The expression with a variable in place of each ``$``, the context item.

    >>> source = "$sum($.a) + $"
    >>> without_context(source, tokens(source))
    '$sum($states.a) + $states'
    """
    parts, end = list[str](), 0
    for token in found:
        if token.text == "$":
            parts += source[end : token.position], "$states"
            end = token.position + 1
    return "".join((*parts, source[end:]))


def literals(source: str, found: Iterable[Token]) -> Iterator[float]:
    """The numbers that stand in the expression.

    >>> source = "[9007199254740993, 'text 1', 7.5]"
    >>> list(literals(source, tokens(source)))
    [9007199254740993, 7.5]
    """
    end = 0
    for token in found:
        match = NUMBER.match(source, token.position)
        if match is not None and match.start() >= end:
            yield value_of(match)
            end = match.end()


def value_of(number: re.Match[str]) -> float:
    """The number of a literal."""
    is_whole = number["fraction"] is None
    return int(number[0]) if is_whole and len(number[0]) < LONGEST_WHOLE else float(number[0])


def names_in(found: Sequence[Token]) -> Iterator[str]:
    """The variables that tokens name, and do not call: a variable may have the name of a function of JSONata.

    >>> list(names_in(list(tokens("$count + $sum($list)"))))
    ['count', 'list']
    """
    for place, token in enumerate(found):
        if token.kind == "name" and token.text.startswith("$"):
            called = place + 1 < len(found) and found[place + 1].text == "("
            if not called:
                yield token.text.lstrip("$")


def plain_path(source: str) -> tuple[str, ...] | None:
    """The names in ``$variable.field.field``, or ``None`` for any other expression."""
    if match := PLAIN_PATH.fullmatch(source):
        return (match["variable"], *match["fields"].split(".")[1:])
    return None
