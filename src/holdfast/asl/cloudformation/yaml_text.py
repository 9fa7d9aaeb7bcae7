"""YAML as CloudFormation takes it: JSON's values, the short forms of its functions, no aliases.

The only module that knows the reader, ``yaml``. It needs the extra ``asl``.
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-formats.html
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from holdfast.asl.jsontext import DEFINITION_LEVELS, NotJson, read, written
from holdfast.errors import ConfigurationError, InvalidInput

NO_FUNCTIONS: Final = frozenset({"Ref", "Condition"})
"""Short forms that stand for a field of their own name; all others stand for ``Fn::`` and the name."""

TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


def read_yaml(text: str, what: str) -> Any:
    """The value of a YAML text, which is one that JSON has. Raises ``InvalidInput``; ``what`` names the text there."""
    yaml = _module(what)
    try:
        _refuse_aliases(yaml, text)
        reader = _reader()(text)
        node: Any = reader.get_single_node()
        value = None if node is None else _value(reader, node)
        return read(written(value, DEFINITION_LEVELS), DEFINITION_LEVELS)
    except yaml.MarkedYAMLError as error:
        at = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
        raise InvalidInput(f"{what} is no YAML{at}: {error.problem}") from None
    except (yaml.YAMLError, NotJson, RecursionError, ValueError) as error:
        raise InvalidInput(f"{what} cannot be read: {error}") from None


def _module(what: str) -> Any:
    """The library, which has no types."""
    try:
        return import_module("yaml")
    except ImportError:
        raise ConfigurationError(f"{what} is YAML, which needs the extra: pip install 'holdfast[asl]'") from None


def _refuse_aliases(yaml: Any, text: str) -> None:
    """Refuse what stands for another value of the text: values of a few lines could be of any size."""
    if "*" not in text:
        return
    for event in yaml.parse(text, Loader=_reader()):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="CloudFormation takes no aliases", problem_mark=event.start_mark)


@cache
def _reader() -> Any:
    """The class of the reader: a safe one, which makes plain data only, and the one in C where it is installed."""
    yaml = _module("it")
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in each if tag != TIMESTAMP]  # 2012-10-17 is a text
        for first, each in base.yaml_implicit_resolvers.items()
    }
    return type("Reader", (base,), {"yaml_implicit_resolvers": resolvers})


def _value(reader: Any, node: Any) -> Any:
    """The value of a node. Texts, lists and objects are made here: the reader takes several times as long for them."""
    match node.tag:
        case "tag:yaml.org,2002:str" if node.id == "scalar":
            return node.value
        case "tag:yaml.org,2002:seq" if node.id == "sequence":
            return [_value(reader, each) for each in node.value]
        case "tag:yaml.org,2002:map" if node.id == "mapping":
            return _object(reader, node)
        case str() as tag if tag.startswith("!"):
            return _short_form(reader, tag[1:], node)
        case _:
            return reader.construct_object(node, deep=True)


def _object(reader: Any, node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key: Any = _value(reader, key_node)
        if not isinstance(key, str | int) or isinstance(key, bool) or str(key) in found:
            told = "a name is no text, or comes twice"
            raise _module("it").MarkedYAMLError(problem=told, problem_mark=key_node.start_mark)
        found[str(key)] = _value(reader, value_node)
    return found


def _short_form(reader: Any, name: str, node: Any) -> dict[str, Any]:
    match node.id:
        case "scalar":
            value: Any = node.value
            if name == "GetAtt":
                value = value.split(".", 1)
        case "sequence":
            value = [_value(reader, each) for each in node.value]
        case _:
            value = _object(reader, node)
    return {name if name in NO_FUNCTIONS else f"Fn::{name}": value}
