"""New code against old histories: it continues them, or it would stop with ``NondeterminismError`` (G13).

Keep recorded histories beside the tests, one for every way through a workflow, and replay them on every change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.app import App
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.record import partition_of
from holdfast.workflows.replay import activation_of

if TYPE_CHECKING:
    from holdfast.workflows.handle import Handle

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Recorded).decode


async def record_history(app: App, handle: Handle[Any]) -> bytes:
    """An execution's history, input and results included, as a file to keep. Raises ``NotFound``."""
    return _encode(await load(app.access().home.store, partition_of(handle.workflow, handle.id)))


def replay_history(app: App, recorded: bytes) -> None:
    """Run the app's code through a recorded history, without any effect.

    Raises ``NondeterminismError``, which names both sides, if the code would not continue it; ``UnknownName`` if its
    workflow is gone.
    """
    history = _decode(recorded)
    activation = activation_of(
        history.head.partition,
        history.record,
        app.registry.workflow(history.record.workflow),
        history.entries,
        app.registry.errors.rebuild,
    )
    try:
        activation.begin()
        if activation.broken is not None:
            raise activation.broken
    finally:
        activation.evict()
