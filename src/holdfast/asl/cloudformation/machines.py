"""The state machines of a template: which there are, and the definition of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.asl.cloudformation.values import Stack
from holdfast.asl.jsontext import is_object
from holdfast.errors import InvalidInput

PLAIN: Final = "AWS::StepFunctions::StateMachine"
SERVERLESS: Final = "AWS::Serverless::StateMachine"
TYPE_OF: Final = {PLAIN: "StateMachineType", SERVERLESS: "Type"}
INLINE: Final = ("DefinitionString", "Definition")
ASSET: Final = "asset."
"""How the file of an asset begins that CDK has written next to its template, before the key that it will have in S3."""

ELSEWHERE: Final = ("DefinitionUri", "DefinitionS3Location")


def is_template(value: object) -> bool:
    """Whether a value is a template, and no definition."""
    return is_object(value) and is_object(value.get("Resources")) and "States" not in value


def machines_in(template: Mapping[str, Any]) -> list[str]:
    """The logical ids of a template's state machines, in its order."""
    resources: Mapping[str, Any] = template["Resources"]
    return [name for name, each in resources.items() if is_object(each) and str(each.get("Type")) in TYPE_OF]


class Deployed:
    """One state machine of a template. Raises ``InvalidInput`` if there is none of the name, or if it has to be named.

    ``given`` are the values of names in the template, as ``Stack`` has them, and of ``DefinitionSubstitutions``.
    """

    def __init__(self, template: Mapping[str, Any], resource: str | None, given: Mapping[str, Any]) -> None:
        names = machines_in(template)
        if resource is None and len(names) != 1:
            told = f"name one of {names}" if names else "there is none"
            raise InvalidInput(f"the template has {len(names)} state machines: {told}")
        if resource is not None and resource not in names:
            raise InvalidInput(f"the template has no state machine {resource!r}; it has {names}")
        self.name = names[0] if resource is None else resource
        found = template["Resources"][self.name]
        properties = found.get("Properties")
        self._properties: Mapping[str, Any] = properties if is_object(properties) else {}
        self._stack = Stack(template, given)
        self._type_field = TYPE_OF[found["Type"]]

    @property
    def type(self) -> str:
        """``STANDARD`` or ``EXPRESS``."""
        return str(self._stack.rendered(self._properties.get(self._type_field, "STANDARD")))

    def inline(self) -> Any:
        """The definition in the template: JSON text or an object; ``None`` if it is in a file."""
        found = next((self._properties[name] for name in INLINE if name in self._properties), None)
        return None if found is None else self._stack.rendered(found)

    def file(self, folder: Path) -> Path:
        """The file that holds the definition. ``folder`` is that of the template."""
        written = next((self._properties[name] for name in ELSEWHERE if name in self._properties), None)
        place = self._stack.rendered(written)
        if is_object(place) and (asset := folder / f"{ASSET}{place.get('Key')}").is_file():
            return asset
        if not isinstance(place, str) or place.startswith("s3://"):
            told = "it has none" if place is None else f"it is in S3, at {place}: fetch it, and read the file"
            raise InvalidInput(f"the definition of {self.name!r} is not in the template or next to it; {told}")
        return folder / place

    def substitutions(self) -> dict[str, Any]:
        """The values of the names in its definition: given ones go before those of the template."""
        written = self._properties.get("DefinitionSubstitutions", {})
        if not is_object(written):
            raise InvalidInput(f"the DefinitionSubstitutions of {self.name!r} are no object")
        given = self._stack.given
        return {name: given[name] if name in given else self._stack.rendered(each) for name, each in written.items()}
