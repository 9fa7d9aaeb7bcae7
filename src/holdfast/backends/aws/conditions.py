"""Conditions and updates in DynamoDB's expression language. ``items.holds`` defines what they mean.

A comparison with a missing attribute is false, as the conditions over ``None`` require. A zero or an empty status may
also be a missing attribute. ("Comparison operator and function
reference", developer guide.)
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.backends.aws.layout import number, text
from holdfast.items import (
    Absent,
    AllOf,
    Always,
    AnyOf,
    Condition,
    EpochIs,
    Exists,
    Expired,
    LeaseLapsed,
    OwnerIs,
    RevisionIs,
    StatusIn,
    Unowned,
)


class Words:
    """The names and values that the expressions of one request use. Names are aliases: many are reserved words."""

    __slots__ = ("names", "values")

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, dict[str, Any]] = {}

    def name(self, attribute: str) -> str:
        """The name of an attribute in an expression. That of a message is a sort key, and gets a number instead."""
        alias = f"#{attribute}"
        if not attribute.isalpha():
            alias = next((each for each, named in self.names.items() if named == attribute), f"#{len(self.names)}")
        self.names[alias] = attribute
        return alias

    def value(self, value: dict[str, Any]) -> str:
        """The name of a value in an expression."""
        for alias, there in self.values.items():
            if there == value:
                return alias
        alias = f":{len(self.values)}"
        self.values[alias] = value
        return alias

    def parameters(self) -> dict[str, Any]:
        """The parameters of a request that define the names."""
        values = {"ExpressionAttributeValues": self.values} if self.values else {}
        return values | ({"ExpressionAttributeNames": self.names} if self.names else {})


class Term(Struct, frozen=True):
    """Part of an expression. DynamoDB refuses needless parentheses, so they are added last."""

    text: str
    is_compound: bool = False


def condition_expression(condition: Condition, words: Words) -> str:
    """The ``ConditionExpression`` for a condition."""
    return _term(condition, words).text


def guarded(condition: Condition, nonce: bytes, words: Words, *others: Term) -> str:
    """``condition``, the ``others``, and that the last write here had another nonce: a write must not be applied
    twice.
    """
    another = Term(f"{words.name('n')} <> {words.value({'B': nonce})}")
    return _all((_term(condition, words), _any((_missing("n", words), another)), *others)).text


def _term(condition: Condition, words: Words) -> Term:
    match condition:
        case Always():
            return _any((_there("p", words), _missing("p", words)))
        case Absent():
            return _missing("p", words)
        case Exists():
            return _there("p", words)
        case RevisionIs(revision):
            return _equals("r", revision, words)
        case EpochIs(epoch):
            return _equals("e", epoch, words)
        case OwnerIs(owner, epoch):
            return _all((Term(f"{words.name('o')} = {words.value(text(owner))}"), _equals("e", epoch, words)))
        case Unowned():
            return _all((_there("p", words), _missing("o", words)))
        case LeaseLapsed(now):
            return Term(f"{words.name('lu')} < {words.value(number(now))}")
        case Expired(now):
            return Term(f"{words.name('xm')} <= {words.value(number(now))}")
        case StatusIn(statuses):
            return _status_in(statuses, words)
        case AllOf(conditions):
            return _all(tuple(_term(each, words) for each in conditions) or (_term(Always(), words),))
        case AnyOf(conditions):
            return _any(tuple(_term(each, words) for each in conditions) or (_never(words),))


def _there(attribute: str, words: Words) -> Term:
    return Term(f"attribute_exists({words.name(attribute)})")


def _missing(attribute: str, words: Words) -> Term:
    return Term(f"attribute_not_exists({words.name(attribute)})")


def _never(words: Words) -> Term:
    return _all((_there("p", words), _missing("p", words)))


def _equals(attribute: str, wanted: int, words: Words) -> Term:
    equal = Term(f"{words.name(attribute)} = {words.value(number(wanted))}")
    if wanted != 0:
        return equal
    return _any((_all((_there("p", words), _missing(attribute, words))), equal))


def _status_in(statuses: tuple[str, ...], words: Words) -> Term:
    terms: list[Term] = []
    if "" in statuses:
        terms.append(_all((_there("p", words), _missing("st", words))))
    if named := sorted({status for status in statuses if status}):
        listed = ", ".join(words.value(text(status)) for status in named)
        terms.append(Term(f"{words.name('st')} IN ({listed})"))
    return _any(tuple(terms) or (_never(words),))


def _all(terms: tuple[Term, ...]) -> Term:
    return _joined(terms, " AND ")


def _any(terms: tuple[Term, ...]) -> Term:
    return _joined(terms, " OR ")


def _joined(terms: tuple[Term, ...], operator: str) -> Term:
    if len(terms) == 1:
        return terms[0]
    return Term(operator.join(f"({each.text})" if each.is_compound else each.text for each in terms), is_compound=True)
