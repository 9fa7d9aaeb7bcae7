"""What the functions of a template stand for, where nothing of it is deployed: texts made of names, or given ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from holdfast.asl.arns import Account
from holdfast.asl.cloudformation.parameters import parameter_value
from holdfast.asl.jsontext import DEFINITION_CHARACTERS, compact, is_array, is_object, reference_token
from holdfast.errors import InvalidInput

NO_VALUE: Final = object()
"""``AWS::NoValue``: the field is not there."""

VARIABLE: Final = re.compile(r"\$\{(!?)([^{}]*)\}")

LITERAL: Final = "\ue000"
"""Stands in ``${NAME}`` that a ``Fn::Sub`` wants as it is: it has no value for a good reason."""

FOLDER: Final[Mapping[str, str]] = {
    "lambda": "function:",
    "dynamodb": "table/",
    "ecs": "cluster/",
    "events": "event-bus/",
}
"""What stands before the name in the ARNs of a service."""

OF_STATES: Final[Mapping[str, str]] = {"Activity": "activity", "StateMachine": "stateMachine"}

RESOLVED: Final = "{{resolve:"
"""How a text begins that CloudFormation reads from SSM or Secrets Manager."""

STANDS_LATER: Final = (
    f"what {RESOLVED}…}}}} stands for is read when a stack is deployed: write a Ref, and give its value"
)

STANDS_NEVER: Final = (
    f"CloudFormation reads {RESOLVED}…}}}} in the template alone, and not in the file of a definition: put it into "
    "DefinitionSubstitutions, or pass the file itself as the definition if it is to stay as it is"
)

MALFORMED: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)
"""What reading a part of a template raises that is not of the form that CloudFormation takes."""

ALL_CHARACTERS: Final = 16 * DEFINITION_CHARACTERS
"""What the functions of a template make together, with what is only a part of another text."""

NAMED_BY_ARN: Final = frozenset({"Topic", "StateMachine", "Activity", "Alias"})
"""Resources whose ``Ref`` is their ARN."""


class Known(Struct):
    """What is known of a template while it is read: its conditions, where ``None`` is one being evaluated, and how many
    characters its functions have made.
    """

    truths: dict[str, bool | None] = {}
    characters: int = 0


class Stack(Struct, frozen=True):
    """A template whose values are asked for. ``given`` goes before what is made up: ``Name`` is what a ``Ref`` stands
    for, ``Name.Attribute`` what a ``Fn::GetAtt`` does.
    """

    template: Mapping[str, Any]
    given: Mapping[str, Any]
    account: Account = Account()
    known: Known = field(default_factory=Known)

    def rendered(self, value: Any, at: str | None = None) -> Any:
        """The value with each function replaced. Raises ``InvalidInput`` for one that stands for nothing known.

        ``at`` is the JSON pointer of the value in the template, for the message.
        """
        made = self._made(value, at)
        if isinstance(made, str) and RESOLVED in made:
            raise _refused(at, STANDS_LATER)
        return made

    def _made(self, value: Any, at: str | None) -> Any:
        if is_array(value):
            rendered = [self.rendered(each, _inside(at, place)) for place, each in enumerate(value)]
            return [each for each in rendered if each is not NO_VALUE]
        return self._object(value, at) if is_object(value) else value

    def _object(self, value: dict[str, Any], at: str | None) -> Any:
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name in _FUNCTIONS:
                return self._called(name, argument, at)
            if name.startswith("Fn::"):
                told = f"{name} of a template stands for nothing here; these do: {', '.join(_FUNCTIONS)}"
                raise _refused(at, told)
        fields = {name: self.rendered(each, _inside(at, name)) for name, each in value.items()}
        return {name: each for name, each in fields.items() if each is not NO_VALUE}

    def _called(self, name: str, argument: Any, at: str | None) -> Any:
        try:
            return _FUNCTIONS[name](self, argument)
        except InvalidInput as error:
            raise _refused(at, str(error)) from None
        except MALFORMED as error:
            raise _refused(at, f"{name} of a template does not take {compact(argument)[:100]}") from error

    def ref(self, name: Any) -> Any:
        """What ``Ref`` stands for."""
        if name == "AWS::NoValue":
            return NO_VALUE
        parameter = self.template.get("Parameters", {}).get(name)
        if parameter is not None:
            return parameter_value(name, parameter, self.given)
        if name in self.given:
            return self.given[name]
        if name in self._pseudo:
            return self._pseudo[name]
        kind = self._kind(name)
        if kind.endswith("Queue"):
            return f"https://sqs.{self.account.region}.amazonaws.com/{self.account.account}/{self.name_of(name)}"
        return self._arn(name) if kind.rpartition(":")[2] in NAMED_BY_ARN else self.name_of(name)

    def attribute(self, argument: Any) -> Any:
        """What ``Fn::GetAtt`` stands for."""
        name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        named = f"{name}.{attribute}"
        if named in self.given:
            return self.given[named]
        if attribute in ("Arn", "TopicArn"):
            return self._arn(name)
        if attribute.endswith("Name"):
            return self.name_of(name)
        raise InvalidInput(f"nothing is known of {named!r} of the template: give it, as {named}=…")

    def name_of(self, name: str) -> str:
        """The name of a resource: the one that the template gives it, else its logical id."""
        kind = self._kind(name).rpartition(":")[2]
        properties: dict[str, Any] = self.template["Resources"][name].get("Properties") or {}
        own = properties.get(f"{kind}Name", properties.get("Name"))
        return own if isinstance(own, str) else name

    def _arn(self, name: str) -> str:
        kind, account = self._kind(name), self.account
        _, service, resource = (*kind.split("::"), "", "")[:3]
        if resource in OF_STATES:
            return account.arn(OF_STATES[resource], self.name_of(name))
        service = "lambda" if resource == "Function" else "dynamodb" if resource == "SimpleTable" else service.lower()
        begin = f"arn:{account.partition}:{service}:{account.region}:{account.account}:"
        return begin + FOLDER.get(service, "") + self.name_of(name)

    def _kind(self, name: Any) -> str:
        resource = self.template.get("Resources", {}).get(name)
        if not is_object(resource):
            raise InvalidInput(f"the template has no {name!r}: give it, as {name}=…")
        return str(resource.get("Type", ""))

    @property
    def _pseudo(self) -> Mapping[str, str]:
        return {
            "AWS::Region": self.account.region,
            "AWS::AccountId": self.account.account,
            "AWS::Partition": self.account.partition,
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": "stack",
        }


def _inside(at: str | None, name: str | int) -> str | None:
    return None if at is None else at + reference_token(name)


def _refused(at: str | None, why: str) -> InvalidInput:
    return InvalidInput(why if at is None else f"{at}: {why}")


def text_of(value: Any) -> str:
    """A value as a part of a text. Raises ``ValueError`` for what CloudFormation refuses: a list, an object, null."""
    if value is None or value is NO_VALUE or is_array(value) or is_object(value):
        raise ValueError("no text")
    return value if isinstance(value, str) else compact(value)


def _listed(value: Any) -> list[Any]:
    if not is_array(value):
        raise ValueError("no list")
    return value


def _joined(stack: Stack, argument: Any) -> str:
    separator, parts = argument
    between, texts = text_of(separator), [text_of(each) for each in _listed(stack.rendered(parts))]
    _count(stack, sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def _count(stack: Stack, characters: int, before: int = 0) -> None:
    """Count what a function makes. Raises ``InvalidInput`` when a text, or all together, has too much."""
    stack.known.characters += characters
    if before + characters > DEFINITION_CHARACTERS or stack.known.characters > ALL_CHARACTERS:
        told = (
            f"a text has more than {DEFINITION_CHARACTERS:,} characters, or all that functions make {ALL_CHARACTERS:,}"
        )
        raise InvalidInput(f"{told}: a definition may not have as many. Make the parts shorter that are repeated")


def _substituted(stack: Stack, argument: Any) -> str:
    text: str = argument if isinstance(argument, str) else argument[0]
    own: Mapping[str, Any] = {} if isinstance(argument, str) else argument[1]

    known: dict[str, str] = {}  # else what is in it is made again each time that it is named
    made = 0

    def value(name: str) -> str:
        if name in own:
            return text_of(stack.rendered(own[name]))
        if name in stack.given or "." not in name:
            return text_of(stack.ref(name))
        return text_of(stack.attribute(name))

    def put(found: re.Match[str]) -> str:
        nonlocal made
        literally, name = found.groups()
        if literally:
            return f"${LITERAL}{{{name}}}"
        if name not in known:
            known[name] = value(name)
        _count(stack, len(known[name]), made)
        made += len(known[name])
        return known[name]

    return VARIABLE.sub(put, text)


def _selected(stack: Stack, argument: Any) -> Any:
    place, values = argument
    place, values = stack.rendered(place), _listed(stack.rendered(values))
    index = int(place) if isinstance(place, str) and place.isdecimal() else place
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(values):
        raise ValueError("no such place")
    return values[index]


def _split(stack: Stack, argument: Any) -> list[str]:
    separator, text = stack.rendered(argument)
    return text_of(text).split(separator)


def _chosen(stack: Stack, argument: Any) -> Any:
    condition, if_so, else_so = argument
    return stack.rendered(if_so if holds(stack, condition) else else_so)


def _found_in_map(stack: Stack, argument: Any) -> Any:
    found: Any = stack.template["Mappings"]
    for name in (stack.rendered(each) for each in _exactly(argument, 3)):
        found = found[text_of(name)]
    return found


def _exactly(argument: Any, count: int) -> list[Any]:
    found = _listed(argument)
    if len(found) != count:
        raise ValueError("another count")
    return found


def holds(stack: Stack, name: Any) -> bool:
    """Whether a condition of the template is true. Raises ``InvalidInput`` for one that is not there or has no end, and
    for one that CloudFormation does not take.
    """
    conditions: object = stack.template.get("Conditions", {})
    if not isinstance(name, str) or not is_object(conditions) or name not in conditions:
        raise InvalidInput(f"the template has no condition {name!r}")
    truths = stack.known.truths
    if name not in truths:
        truths[name] = None
        try:
            truths[name] = _truth(stack, conditions[name])
        except InvalidInput:
            raise
        except MALFORMED as error:
            told = f"condition {name!r} of the template cannot be read"
            raise InvalidInput(f"{told}: {compact(conditions[name])[:100]}") from error
    if (truth := truths[name]) is None:
        raise InvalidInput(f"condition {name!r} of the template depends on itself")
    return truth


def _truth(stack: Stack, condition: Any) -> bool:
    ((name, argument),) = condition.items()
    match name:
        case "Condition":
            return holds(stack, argument)
        case "Fn::Equals":
            one, other = (stack.rendered(each) for each in _exactly(argument, 2))
            return bool(text_of(one) == text_of(other))
        case "Fn::Not":
            return not _truth(stack, *_exactly(argument, 1))
        case "Fn::And":
            return all(_truth(stack, each) for each in _listed(argument))
        case "Fn::Or":
            return any(_truth(stack, each) for each in _listed(argument))
        case _:
            raise InvalidInput(f"{name} in a condition of a template stands for nothing here")


_FUNCTIONS: Final[Mapping[str, Callable[[Stack, Any], Any]]] = {
    "Ref": Stack.ref,
    "Fn::GetAtt": Stack.attribute,
    "Fn::Join": _joined,
    "Fn::Sub": _substituted,
    "Fn::Select": _selected,
    "Fn::Split": _split,
    "Fn::If": _chosen,
    "Fn::FindInMap": _found_in_map,
}
