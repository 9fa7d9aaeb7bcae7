"""Limits for runs of months in virtual time: with the usual ones, a worker's periodic work would be most of the run."""

from __future__ import annotations

from typing import Final

from holdfast.kernel.limits import Limits

MONTH_SECONDS: Final = 30 * 86_400.0

PATIENT: Final = Limits(lease_ms=int(MONTH_SECONDS * 1000), sweep_seconds=MONTH_SECONDS, purge_seconds=MONTH_SECONDS)
"""A worker that renews, sweeps and purges once a month. Not for tests of crashes: a death is noticed just as late."""
