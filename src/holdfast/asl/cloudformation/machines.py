"""The state machines of a template: which there are, and the definition of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.asl.cloudformation.values import LITERAL, NO_VALUE, Stack, holds
from holdfast.asl.jsontext import is_array, is_object
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
        if "Condition" in found:
            self._check_that(found["Condition"])

    def _check_that(self, condition: Any) -> None:
        at = f"/Resources/{self.name}/Condition"
        try:
            true = holds(self._stack, condition)
        except InvalidInput as error:
            raise InvalidInput(f"{at}: {error}") from None
        if not true:
            raise InvalidInput(f"{at}: condition {condition!r} is false: give values with which it is true")

    @property
    def type(self) -> str:
        """``STANDARD`` or ``EXPRESS``."""
        return str(as_meant(self._rendered(self._type_field)) or "STANDARD")

    def inline(self) -> Any:
        """The definition in the template: JSON text or an object; ``None`` if it is in a file."""
        return self._rendered(*INLINE)

    def file(self, folder: Path) -> Path:
        """The file that holds the definition, in ``folder``, which is that of the template, or below it."""
        place = as_meant(self._rendered(*ELSEWHERE))
        if is_object(place) and (asset := folder / f"{ASSET}{place.get('Key')}").is_file():
            place = asset.name
        if not isinstance(place, str) or place.startswith("s3://"):
            told = "it has none" if place is None else f"it is in S3, at {place}: fetch it, and read the file"
            raise InvalidInput(f"the definition of {self.name!r} is not in the template or next to it; {told}")
        return _below(folder, place, self._at("DefinitionUri"))

    def substitutions(self) -> dict[str, Any]:
        """The values of the names in its definition: given ones go before those of the template."""
        written = self._properties.get("DefinitionSubstitutions", {})
        if not is_object(written):
            raise InvalidInput(f"the DefinitionSubstitutions of {self.name!r} are no object")
        at = self._at("DefinitionSubstitutions")
        given = self._stack.given
        values = {
            name: given[name] if name in given else as_meant(self._stack.rendered(each, f"{at}/{name}"))
            for name, each in {**written, **given}.items()
        }
        for name, value in values.items():
            if is_array(value) or is_object(value) or value is None:
                raise InvalidInput(f"{at}/{name}: it has to be a text, a number or a boolean; give it, as {name}=…")
        return {name: value for name, value in values.items() if value is not NO_VALUE}

    def _rendered(self, *names: str) -> Any:
        """The value of the first of these properties that there is."""
        name = next((each for each in names if each in self._properties), None)
        value = None if name is None else self._stack.rendered(self._properties[name], self._at(name))
        return None if value is NO_VALUE else value

    def _at(self, name: str) -> str:
        return f"/Resources/{self.name}/Properties/{name}"


def as_meant(value: Any) -> Any:
    """A text without the marks of what is meant literally."""
    return value.replace(LITERAL, "") if isinstance(value, str) else value


def _below(folder: Path, place: str, at: str) -> Path:
    """A file that a template names. It may be in the template's folder or below, wherever links lead."""
    try:
        file = (folder / place).resolve()
        if not file.is_relative_to(folder.resolve()):
            told = (
                "leads out of the folder of the template: put the file there, or pass the file itself as the definition"
            )
            raise InvalidInput(f"{at}: {place!r} {told}")
        if not file.is_file():
            raise InvalidInput(f"{at}: {place!r} is {'no file' if file.exists() else 'not there'}")
    except (OSError, RuntimeError, ValueError) as error:  # a name with NUL, or that is too long, or a loop of links
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{at}: {place!r} is the name of no file: {error}") from None
    return folder / place
