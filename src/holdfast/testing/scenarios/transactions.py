"""Transactional steps: the user's own SQL, exactly once (G10). They need a home that speaks SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.testing.simulation import Scenario

SCENARIOS: Final[Sequence[Scenario]] = ()
