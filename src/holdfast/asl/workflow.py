"""The workflows that run states of machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Raw

from holdfast.asl.about import begun_with
from holdfast.asl.stored.texts import Keeper, digest_in, place_of, text_in
from holdfast.workflows.definition import Workflow

if TYPE_CHECKING:
    from holdfast.ports import Home
    from holdfast.replay.activation import Activation
    from holdfast.workflows.scope import BodyScope


class StatesWorkflow(Workflow[..., Any]):
    """A workflow whose body runs states, by the definition in its argument ``defined_by``: a small one is there, of a
    larger one its digest, and executions share the text. A redrive attempts a Task that waits for a token again, with
    another token, as Step Functions does.
    """

    renews_callbacks = True
    shares = True
    defined_by: ClassVar[str] = "processor"

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._keeper = Keeper()

    async def sharing(self, input: bytes, home: Home) -> tuple[bytes, str]:
        """See ``DeclaredWorkflow``: the definition is stored once."""
        fields = msgspec.json.decode(input, type=dict[str, Raw])
        definition = msgspec.json.decode(bytes(fields[self.defined_by]), type=str)
        kept = await self._keeper.kept(definition, home)
        if not (digest := digest_in(kept)):
            return input, ""
        return msgspec.json.encode({**fields, self.defined_by: kept}), place_of(digest).partition


class MachineWorkflow(StatesWorkflow):
    """A workflow that runs a whole machine. Its input holds the definition and what the machine is given."""

    defined_by = "definition"

    def given(self, input: bytes) -> bytes:
        """What the machine is given. The definition is code, and code may have changed since (G11, G13)."""
        return begun_with(input).input.encode()


def text_of(activation: Activation, definition: str) -> str:
    """The text of the definition that an execution began with, given its argument."""
    scope: BodyScope = activation.context
    return definition_in(definition, scope.shared)


def definition_in(definition: str, shared: bytes) -> str:
    """The text of a definition: it is there, or in the item that an execution shares with others."""
    return text_in(shared) if digest_in(definition) else definition
