"""Python as data, and its text as ``ruff format`` leaves it: what does not fit in a line is broken at its brackets."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

LINE_CHARACTERS: Final = 88
"""The width that ``ruff format`` has by default."""

_INDENT: Final = "    "

# ── Expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Brackets(Struct, frozen=True):
    """A call, a dict or a list: ``before`` ends with the opening bracket, ``after`` begins with the closing one."""

    before: str
    items: tuple[Code, ...]
    after: str


class Chain(Struct, frozen=True):
    """Conditions that are joined by ``and`` or by ``or``."""

    operator: str
    parts: tuple[Code, ...]


class Prefixed(Struct, frozen=True):
    """Code with something before it: a key, ``await``, ``not``."""

    before: str
    code: Code


class Comprehension(Struct, frozen=True):
    """``[element for item in source if condition]``; ``loop`` is ``for item in``."""

    element: Code
    loop: str
    source: Code
    condition: str = ""

    @property
    def inside(self) -> str:
        """It in one line, without its brackets."""
        condition = f" {self.condition}" if self.condition else ""
        return f"{flat(self.element)} {self.loop} {flat(self.source)}{condition}"


class Operation(Struct, frozen=True):
    """Code with an operator in it, such as ``a + 1``: it needs parentheses where another operator takes it."""

    operator: str
    parts: tuple[str, ...]


Code = str | Brackets | Chain | Prefixed | Comprehension | Operation


def flat(code: Code) -> str:
    """The code in one line."""
    match code:
        case str():
            return code
        case Operation(operator, operands):
            return f" {operator} ".join(operands)
        case Brackets(before, items, after):
            return f"{before}{', '.join(map(flat, items))}{after}"
        case Chain(operator, parts):
            return f" {operator} ".join(map(_operand, parts))
        case Prefixed("not " as before, code):
            return before + _operand(code)
        case Prefixed(before, code):
            return before + flat(code)
        case Comprehension():
            return f"[{code.inside}]"


def _operand(code: Code) -> str:
    return f"({flat(code)})" if isinstance(code, Chain) else flat(code)


def atom(code: Code) -> str:
    """The code in one line, where a dot, a bracket or an operator follows."""
    return flat(code) if isinstance(code, str | Brackets) else f"({flat(code)})"


def call(function: str, *arguments: Code) -> Brackets:
    """A call."""
    return Brackets(f"{function}(", arguments, ")")


def quoted(text: str) -> str:
    """A text as a literal, in double quotes unless that costs more escapes."""
    literal = repr(text)
    if literal[0] == '"' or ('"' in text and "'" not in text):
        return literal
    body = literal[1:-1].replace("\\'", "'")
    return literal if text.count('"') > text.count("'") else '"' + body.replace('"', '\\"') + '"'


# ── Statements ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Line(Struct, frozen=True):
    """A simple statement, or the head of a compound one."""

    before: str
    code: Code = ""
    after: str = ""


class Comment(Struct, frozen=True):
    """A comment, whose lines are broken where they are too long unless it is ``verbatim``."""

    text: str
    verbatim: bool = False


class Suite(Struct, frozen=True):
    """A head and its body: ``if …:``, ``except …:``, ``async def …:``."""

    head: Line
    body: tuple[Statement, ...]


class Compound(Struct, frozen=True):
    """Suites that belong together: an ``if`` with its ``else``, a ``try`` with its handlers, a loop, a function."""

    suites: tuple[Suite, ...]

    @property
    def keyword(self) -> str:
        return self.suites[0].head.before.split(" ")[0].rstrip(":")


Statement = Line | Comment | Compound
Body = tuple[Statement, ...]

CONTINUE: Final = Line("continue")
BREAK: Final = Line("break")


def ends(body: Sequence[Statement]) -> bool:
    """Whether nothing behind a body is reached: it returns, raises, or goes on with the loop elsewhere."""
    match body[-1:]:
        case (Line(before),):
            return before.split(" ")[0] in ("return", "raise", "continue", "break")
        case (Compound(suites) as compound,):
            match compound.keyword:
                case "if":
                    return suites[-1].head.before == "else" and all(ends(each.body) for each in suites)
                case "try":
                    first, *rest = suites
                    last = rest[-1].head.before == "else" and ends(rest[-1].body)
                    handled = all(ends(each.body) for each in rest if each.head.before != "else")
                    return handled and (last or ends(first.body))
                case "while":
                    return not _breaks(suites[0].body)
                case _:
                    return False
        case _:
            return False


def joined(body: Body) -> Body:
    """The statements with fewer names: what is only handed on is handed on at once."""
    done: list[Statement] = []
    for each in body:
        before = done[-1] if done else None
        if isinstance(each, Line) and isinstance(before, Line) and before.before == f"{flat(each.code)} = ":
            done[-1] = Line(each.before, before.code)
        else:
            done.append(each)
    return tuple(done)


def _breaks(body: Sequence[Statement]) -> bool:
    inner = (each for each in body if isinstance(each, Compound) and each.keyword not in ("while", "async"))
    return BREAK in body or any(_breaks(suite.body) for each in inner for suite in each.suites)


# ── Text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def rendered(body: Sequence[Statement], indent: str = "") -> Iterator[str]:
    """The lines of a body."""
    before: Statement | None = None
    for each in body:
        if before is not None and _is_apart(before, each):
            yield ""
        match each:
            case Comment():
                yield from _comment(each, indent)
            case Line(prefix, code, after):
                yield from _written(prefix, code, after, indent, statement=True)
            case Compound(suites):
                for head, inner in ((suite.head, suite.body) for suite in suites):
                    yield from _written(head.before, head.code, f"{head.after}:", indent, statement=True)
                    yield from rendered(inner or (Line("pass"),), indent + _INDENT)
        before = each


def _is_apart(before: Statement, each: Statement) -> bool:
    if isinstance(before, Line) and before.before.startswith("@"):
        return False
    if isinstance(before, Compound) and before.keyword == "async":
        return True
    if isinstance(before, Comment):
        return isinstance(each, Comment) and not (before.verbatim or each.verbatim)
    return isinstance(each, Comment) or (isinstance(each, Compound) and each.keyword == "async")


def _comment(comment: Comment, indent: str) -> Iterator[str]:
    room = max(40, LINE_CHARACTERS - len(indent) - 2)
    for line in comment.text.splitlines():
        for part in [line] if comment.verbatim else textwrap.wrap(line, room, break_long_words=False):
            yield f"{indent}# {part}".rstrip()


def _written(before: str, code: Code, after: str, indent: str, *, statement: bool = False) -> Iterator[str]:
    whole = f"{indent}{before}{flat(code)}{after}"
    if len(whole) <= LINE_CHARACTERS:
        yield whole
        return
    inner = indent + _INDENT
    match code:
        case Prefixed(prefix, inside):
            yield from _written(before + prefix, inside, after, indent, statement=statement)
        case Brackets(opening, (_, *_) as items, closing):
            yield f"{indent}{before}{opening}"
            for item in items:
                yield from _written("", item, ",", inner)
            yield f"{indent}{closing}{after}"
        case Comprehension(element, loop, source, condition):
            yield f"{indent}{before}["
            if len(inner) + len(code.inside) <= LINE_CHARACTERS:
                yield inner + code.inside
            else:
                yield from _written("", element, "", inner)
                yield from _written(f"{loop} ", source, "", inner)
                yield from (f"{inner}{condition}",) if condition else ()
            yield f"{indent}]{after}"
        case Operation(operator, (first, *others)) if not statement:
            yield f"{indent}{before}{first}"
            yield from (f"{indent}{operator} {each}" for each in others[:-1])
            yield f"{indent}{operator} {others[-1]}{after}"
        case Chain(operator, parts):
            yield f"{indent}{before}("
            for place, part in enumerate(parts):
                lead = f"{operator} " if place else ""
                if isinstance(part, Chain) and len(inner) + len(lead) + len(_operand(part)) <= LINE_CHARACTERS:
                    yield f"{inner}{lead}{_operand(part)}"
                else:
                    yield from _written(lead, part, "", inner)
            yield f"{indent}){after}"
        case _ if statement and len(inner) + len(flat(code)) <= LINE_CHARACTERS and code:
            yield f"{indent}{before}("
            yield f"{inner}{flat(code)}"
            yield f"{indent}){after}"
        case _:
            yield whole
