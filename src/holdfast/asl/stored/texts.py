"""The texts of definitions, each stored once under its digest. Nothing ever changes or deletes one.

An execution, a machine that a request created and a child of a Map run refer to a definition by its digest, so what
they store stays small however large the definition is. A text is durable before anything refers to it (G7), so a crash
in between leaves a text that nothing refers to, and the repeat finds it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.bounded import Bounded
from holdfast.codec.typed import codec_for
from holdfast.coordination.document.record import NOTHING, Place, decode_stored, new_writer, replacement
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.ports import Home, Store

DEFINITIONS: Final = "!asl-definitions"
"""The name of the documents. No documents of users can have it."""

REFERENCE: Final = "sha256:"
"""How the place of a definition begins where a digest stands for its text, which is a JSON object."""

SMALL_CHARACTERS: Final = 1_000
"""A definition up to this length stays where it is used: it costs less there than a reference and a read."""

KNOWN: Final = 1_000
"""How many texts a process remembers to be stored."""


class StoredDefinition(Struct, frozen=True):
    """The text of a definition, under its digest."""

    text: str


_codec: Final = codec_for(StoredDefinition)


def digest_of(definition: str) -> str:
    """What a definition is known by: a digest of its text."""
    return hashlib.sha256(definition.encode()).hexdigest()


def place_of(digest: str) -> Place:
    """Where the text of this digest is stored."""
    return Place(DEFINITIONS, (digest,))


def digest_in(definition: str) -> str:
    """The digest in a reference; empty if ``definition`` is the text itself."""
    return definition.removeprefix(REFERENCE) if definition.startswith(REFERENCE) else ""


def text_in(stored: bytes) -> str:
    """The text in the body of its item."""
    return _codec.decode(bytes(decode_stored(stored).value)).text


async def keep(store: Store, text: str) -> str:
    """Store a text unless it is there; answers its digest. One read, and one write if it is new."""
    digest = digest_of(text)
    place = place_of(digest)
    if await store.get(place.partition) is None:
        data = _codec.encode(StoredDefinition(text))
        put = replacement(place, NOTHING, data, 1, writer=new_writer(), expires_at=None)
        await write_for_caller(store, put, ours=lambda there: there is not None)  # its digest says that it is this text
    return digest


class Keeper:
    """Stores the texts of definitions that are larger than small, and knows which it has stored."""

    def __init__(self) -> None:
        self._known: Bounded[tuple[str, str], str] = Bounded(KNOWN)

    async def kept(self, definition: str, home: Home) -> str:
        """What to store in place of a definition: a reference to its text, which is stored then; itself if small."""
        if len(definition) <= SMALL_CHARACTERS or digest_in(definition):
            return definition
        place = (home.owner, definition)
        digest = self._known.use(place)
        if digest is None:
            digest = self._known[place] = await keep(home.store, definition)
        return REFERENCE + digest
