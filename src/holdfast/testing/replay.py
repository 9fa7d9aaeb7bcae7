"""New code against old histories: it continues them, or stops with ``NondeterminismError`` (G13).

Keep recorded histories next to the tests, one for every path through a workflow, and replay them on every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from holdfast.testing.hash_seeds import app_named, name_of_app, other_seeds, own_seed, replay_elsewhere
from holdfast.testing.retraced import History, encoded_answers, retrace
from holdfast.workflows.history import load
from holdfast.workflows.record import describe_partition, partition_of

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.workflows.handle import Handle

_encode: Final = msgspec.json.Encoder().encode

HASH_SEEDS: Final = 2
"""Under how many hash seeds, in addition to this process's, a history is replayed."""


class ReplayReport(Struct, frozen=True):
    """The coverage of a replay: its execution, the number of recorded entries, and the hash seeds."""

    execution: str
    entries: int
    hash_seeds: tuple[str, ...]

    def __str__(self) -> str:
        seeds = ", ".join(self.hash_seeds)
        alone = "" if len(self.hash_seeds) > 1 else ", and no other: the app cannot be imported by name"
        return f"{self.execution}: {self.entries} recorded entries, continued under the hash seeds {seeds}{alone}"


async def record_history(app: App, handle: Handle[Any]) -> bytes:
    """An execution's history, input and results included, as a file to keep. Raises ``NotFound``."""
    return _encode(await load(app.runtime().home.store, partition_of(handle.workflow, handle.id)))


def replay_history(
    app: App | str, recorded: bytes, *, answers: Mapping[str, Any] | None = None, hash_seeds: int = HASH_SEEDS
) -> ReplayReport:
    """Run the app's code through a recorded history, without any effect; print and return the coverage.

    It runs here, and in new processes under ``hash_seeds`` other hash seeds: a set that the body has made itself has
    another order there. Those import the app by its name, ``"module:app"``. The name of an app that is passed itself is
    searched for in the module of the workflow; without one the replay runs here only.

    The code must ask for every recorded operation. ``answers`` are the results of steps, children and other operations
    that the code has and the history does not, by name; a step that returns ``None`` needs none, a new wait is over.

    Raises ``NondeterminismError``, which names both sides, if the code would not continue the history, or if an answer
    is missing; ``UnknownName`` if its workflow is gone.
    """
    here = app_named(app) if isinstance(app, str) else app
    history = History(recorded, encoded_answers(here.registry, answers or {}))
    found = retrace(here, history)
    name = app if isinstance(app, str) else name_of_app(app, found.function)
    seeds = () if name is None else other_seeds(hash_seeds)
    if name is not None:
        replay_elsewhere(name, history, seeds)
    report = ReplayReport(
        execution=describe_partition(found.partition),
        entries=found.entries,
        hash_seeds=(f"{own_seed()} (of this process)", *map(str, seeds)),
    )
    print(report)
    return report
