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
MAPPING: Final = "tag:yaml.org,2002:map"


def read_yaml(text: str, what: str) -> Any:
    """The value of a YAML text, which is one that JSON has. Raises ``InvalidInput``; ``what`` names the text there."""
    yaml = _module(what)
    try:
        reader = _reader()(text)
        return read(written(reader.get_single_data(), DEFINITION_LEVELS), DEFINITION_LEVELS)
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


@cache
def _reader() -> Any:
    """The class of the reader: a safe one, which makes plain data only."""
    yaml = _module("it")
    base: Any = yaml.SafeLoader

    def compose_node(self: Any, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            at = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="CloudFormation takes no aliases", problem_mark=at)
        return base.compose_node(self, parent, index)

    resolvers = {
        first: [(tag, pattern) for tag, pattern in each if tag != TIMESTAMP]  # 2012-10-17 is a text
        for first, each in base.yaml_implicit_resolvers.items()
    }
    reader: Any = type("Reader", (base,), {"compose_node": compose_node, "yaml_implicit_resolvers": resolvers})
    reader.add_constructor(MAPPING, _object)
    reader.add_multi_constructor("!", _short_form)
    return reader


def _object(reader: Any, node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key: Any = reader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int) or isinstance(key, bool) or str(key) in found:
            told = "a name is no text, or comes twice"
            raise _module("it").MarkedYAMLError(problem=told, problem_mark=key_node.start_mark)
        found[str(key)] = reader.construct_object(value_node, deep=True)
    return found


def _short_form(reader: Any, name: str, node: Any) -> dict[str, Any]:
    match node.id:
        case "scalar":
            value: Any = reader.construct_scalar(node)
            if name == "GetAtt":
                value = value.split(".", 1)
        case "sequence":
            value = reader.construct_sequence(node, deep=True)
        case _:
            value = _object(reader, node)
    return {name if name in NO_FUNCTIONS else f"Fn::{name}": value}
