"""Collect: single elements become the list that one execution takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import msgspec

from holdfast import ids
from holdfast.actors.definition import field
from holdfast.actors.timers import timer
from holdfast.codec.signature import Signature
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.patterns.starts.keyed import Starter

MOST_BYTES: Final = 128 * 1024
"""A batch that would be larger begins without its newest element. Each request writes what waits of its key."""


class Collector(Starter):
    """Holds elements, each as canonical JSON, until there are enough or the first has waited long enough.

    ``id`` is that of the execution that will take them; empty if nothing waits.
    """

    most: ClassVar[int]
    within_seconds: ClassVar[float]
    parameter: ClassVar[str]

    id: str = ""
    elements: list[str] = field(default_factory=list[str])

    async def ask(self, input: str) -> str:
        if self.elements and sum(map(len, self.elements)) + len(input) > MOST_BYTES:
            await self._begin()
        if not self.elements:
            self.id = ids.new_ordered_id(self.now_ms)
            self.begin.after(self.within_seconds)
        self.elements.append(input)
        taken_by = self.id
        if len(self.elements) >= self.most:
            await self._begin()
        return taken_by

    @timer
    async def begin(self) -> None:
        """Start the execution that takes what has come."""
        await self._begin()

    async def _begin(self) -> None:
        await self.launch(self.id, f'{{"{self.parameter}":[{",".join(self.elements)}]}}')
        self.id, self.elements = "", []
        self.begin.cancel()


def element_encoder(signature: Signature) -> Callable[[tuple[Any, ...], Mapping[str, Any]], bytes]:
    """Encodes one element of the list that a workflow takes, canonically and checked by its type.

    Raises ``ConfigurationError`` if the workflow takes anything but one list.
    """
    name = list_parameter(signature)
    decoder = msgspec.json.Decoder(dict[str, tuple[msgspec.Raw]])

    def encode(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        (element,) = args or kwargs.values()
        (raw,) = decoder.decode(signature.bind(([element],), {}))[name]
        return bytes(raw)

    return encode


def list_parameter(signature: Signature) -> str:
    """The name of the one parameter. Raises ``ConfigurationError`` unless there is one, which takes a list."""
    try:
        (parameter,) = signature.parameters
        signature.bind(([],), {})
    except (ValueError, HoldfastError) as error:
        raise ConfigurationError(
            f"{signature.what} is to take what is collected, so it has one parameter, a list: rows: list[Row]"
        ) from error
    return parameter.name
