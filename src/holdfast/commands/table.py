"""All commands. Each is on every surface; ``tests/commands/test_surfaces.py`` has the exceptions, with reasons.

CONTRIBUTING.md says which files a new one touches. Lambda takes it as it is.
"""

from __future__ import annotations

from typing import Final

from holdfast.commands import actor, callback, execution, limit, message, overview, queue, system
from holdfast.commands.named import Named

COMMANDS: Final[tuple[Named, ...]] = (
    *execution.COMMANDS,
    *callback.COMMANDS,
    *actor.COMMANDS,
    *message.COMMANDS,
    *overview.COMMANDS,
    *system.COMMANDS,
    *queue.COMMANDS,
    *limit.COMMANDS,
)

NAMED: Final = {each.command: each for each in COMMANDS}
