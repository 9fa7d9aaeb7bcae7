"""Playing a story: the stage is set, the story told, the workers sent home, and the books compared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct

from holdfast.chaos import audit
from holdfast.chaos.looking import books
from holdfast.chaos.points import home_file
from holdfast.chaos.shop import app
from holdfast.chaos.stage import Stage, StoryFailed
from holdfast.clock import elapsed_seconds
from holdfast.crew.ledger import ACCEPTED, REPEAT
from holdfast.errors import HoldfastError

STORY_SECONDS: Final = 120.0
"""A story that takes longer has failed. None takes ten seconds alone, and ten times that on a busy machine."""


class Story(Struct, frozen=True, kw_only=True):
    """One thing that goes wrong. ``least_faults``: if the fault is observed less often, the run proves nothing."""

    name: str
    about: str
    play: Callable[[Stage], Coroutine[Any, Any, None]]
    least_faults: int = 1


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a story. ``faults`` are the observed ones; without ``problems`` all is well."""

    story: str
    about: str
    seconds: float
    orders: int
    charges_attempted: int
    charges_accepted: int
    repeats_recognised: int
    faults: list[str]
    problems: list[str]
    told: list[str]

    @property
    def ok(self) -> bool:
        """Whether the fault happened, and all is well."""
        return not self.problems


async def play(story: Story, seed: int, folder: Path, tell: Callable[[str], None]) -> Outcome:
    """Play a story in ``folder``, which holds the home, the bank's ledger and the workers' logs afterwards."""
    began = elapsed_seconds()
    app.home_url = f"sqlite:///{home_file(folder)}"
    stage = Stage(folder, Random(f"{story.name}/{seed}"), tell)
    async with app:
        try:
            async with asyncio.timeout(STORY_SECONDS):
                await stage.open()
                await story.play(stage)
                await stage.quiet()
        except TimeoutError:
            stage.problems.append(f"it had not ended after {STORY_SECONDS:g} s")
        except (StoryFailed, HoldfastError) as failed:
            stage.problems.append(str(failed))
        finally:
            await stage.close()
        entered = await books()
    attempts = stage.bank.entries()
    stage.problems += audit.problems(stage.ordered, attempts, entered)
    if len(stage.faults) < story.least_faults:
        seen = f"{len(stage.faults)} of {story.least_faults} faults were seen to happen"
        stage.problems.append(f"{seen}: this run proves nothing")
    counts = Counter(attempt.what for attempt in attempts)
    return Outcome(
        story=story.name,
        about=story.about,
        seconds=round(elapsed_seconds() - began, 2),
        orders=len(stage.ordered),
        charges_attempted=len(attempts),
        charges_accepted=counts[ACCEPTED],
        repeats_recognised=counts[REPEAT],
        faults=stage.faults,
        problems=stage.problems,
        told=stage.told,
    )
