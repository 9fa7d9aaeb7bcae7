"""The eight stories. Each lets one thing go wrong in real processes, and reports what happened."""

from __future__ import annotations

from typing import Final

from holdfast.chaos.play import Story
from holdfast.chaos.stories.claims import (
    crash_between_claim_and_effect,
    crash_between_effect_and_mark,
    stuck_claim,
    zombie_after_a_pause,
)
from holdfast.chaos.stories.events import (
    crash_between_publish_and_mark,
    duplicate_delivery,
    poison_message,
    redrive_after_a_manual_fix,
)

STORIES: Final = (
    Story(
        name="stuck-claim",
        about="A worker dies, or hangs, holding an event. Another takes it over, at once or after its lease.",
        play=stuck_claim,
        least_faults=3,
    ),
    Story(
        name="crash-between-claim-and-effect",
        about="A worker dies when it has claimed an event and done nothing yet. Another does it all, once.",
        play=crash_between_claim_and_effect,
    ),
    Story(
        name="crash-between-effect-and-mark",
        about="A worker dies when it has charged and not noted it. The bank is asked again, under the same key.",
        play=crash_between_effect_and_mark,
    ),
    Story(
        name="crash-between-publish-and-mark",
        about="The relay dies when it has delivered and not noted it. It delivers again; the consumer knows the event.",
        play=crash_between_publish_and_mark,
        least_faults=2,
    ),
    Story(
        name="duplicate-delivery",
        about="The same event is published and delivered again and again, also to a new worker. It is handled once.",
        play=duplicate_delivery,
    ),
    Story(
        name="redrive-after-a-manual-fix",
        about="An event fails after the charge and is parked. A person fixes the cause; no customer is charged twice.",
        play=redrive_after_a_manual_fix,
    ),
    Story(
        name="poison-message",
        about="An event kills every worker that handles it. It is found, and parked; the rest flows.",
        play=poison_message,
        least_faults=2,
    ),
    Story(
        name="zombie-after-a-pause",
        about="A worker is stopped past its lease, another takes over, the first wakes up. Its next write is refused.",
        play=zombie_after_a_pause,
    ),
)
"""In the order in which ``holdfast chaos run all`` plays them."""
