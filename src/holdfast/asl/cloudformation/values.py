"""What the functions of a template stand for, where nothing of it is deployed: texts made of names, or given ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from holdfast.asl.arns import Account
from holdfast.asl.jsontext import compact, is_array, is_object
from holdfast.errors import InvalidInput

NO_VALUE: Final = object()
"""``AWS::NoValue``: the field is not there."""

VARIABLE: Final = re.compile(r"\$\{(!?)([^{}]*)\}")

FOLDER: Final[Mapping[str, str]] = {
    "lambda": "function:",
    "dynamodb": "table/",
    "ecs": "cluster/",
    "events": "event-bus/",
}
"""What stands before the name in the ARNs of a service."""

OF_STATES: Final[Mapping[str, str]] = {"Activity": "activity", "StateMachine": "stateMachine"}

NAMED_BY_ARN: Final = frozenset({"Topic", "StateMachine", "Activity", "Alias"})
"""Resources whose ``Ref`` is their ARN."""


class Stack(Struct, frozen=True):
    """A template whose values are asked for. ``given`` goes before what is made up: ``Name`` is what a ``Ref`` stands
    for, ``Name.Attribute`` what a ``Fn::GetAtt`` does.
    """

    template: Mapping[str, Any]
    given: Mapping[str, Any]
    account: Account = Account()

    def rendered(self, value: Any) -> Any:
        """The value with each function replaced. Raises ``InvalidInput`` for one that stands for nothing known."""
        if is_array(value):
            return [each for each in map(self.rendered, value) if each is not NO_VALUE]
        if not is_object(value):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name in _FUNCTIONS:
                return self._called(name, argument)
            if name.startswith("Fn::"):
                raise InvalidInput(f"{name} of a template stands for nothing here; these do: {', '.join(_FUNCTIONS)}")
        rendered = {name: self.rendered(each) for name, each in value.items()}
        return {name: each for name, each in rendered.items() if each is not NO_VALUE}

    def _called(self, name: str, argument: Any) -> Any:
        try:
            return _FUNCTIONS[name](self, argument)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"{name} of a template does not take {compact(argument)[:100]}") from error

    def ref(self, name: Any) -> Any:
        """What ``Ref`` stands for."""
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self.given:
            return self.given[name]
        if name in self._pseudo:
            return self._pseudo[name]
        parameter = self.template.get("Parameters", {}).get(name)
        if parameter is not None:
            if "Default" not in parameter:
                raise InvalidInput(f"parameter {name!r} of the template has no default: give it, as {name}=…")
            return parameter["Default"]
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


def text_of(value: Any) -> str:
    """A value as a part of a text."""
    return value if isinstance(value, str) else compact(value)


def _joined(stack: Stack, argument: Any) -> str:
    separator, parts = argument
    return text_of(separator).join(text_of(each) for each in stack.rendered(parts))


def _substituted(stack: Stack, argument: Any) -> str:
    text: str = argument if isinstance(argument, str) else argument[0]
    own: Mapping[str, Any] = {} if isinstance(argument, str) else argument[1]

    def value(found: re.Match[str]) -> str:
        literally, name = found.groups()
        if literally:
            return f"${{{name}}}"
        if name in own:
            return text_of(stack.rendered(own[name]))
        if name in stack.given or "." not in name:
            return text_of(stack.ref(name))
        return text_of(stack.attribute(name))

    return VARIABLE.sub(value, text)


def _selected(stack: Stack, argument: Any) -> Any:
    index, values = stack.rendered(argument)
    return values[int(index)]


def _split(stack: Stack, argument: Any) -> list[str]:
    separator, text = stack.rendered(argument)
    return str(text).split(separator)


_FUNCTIONS: Final[Mapping[str, Callable[[Stack, Any], Any]]] = {
    "Ref": Stack.ref,
    "Fn::GetAtt": Stack.attribute,
    "Fn::Join": _joined,
    "Fn::Sub": _substituted,
    "Fn::Select": _selected,
    "Fn::Split": _split,
}
