"""A hostile DynamoDB: what the service does to its clients and no emulator does, counted, seeded and switchable.

``python -m holdfast.testing.hostile --upstream http://127.0.0.1:8000`` runs it for other processes.
"""

from __future__ import annotations

from holdfast.testing.hostile.proxy import HostileDynamoDB
from holdfast.testing.hostile.report import Fault, Report
from holdfast.testing.hostile.rules import (
    HOSTILE,
    KIND,
    LIKE_THE_SERVICE,
    Capacity,
    Cuts,
    Failures,
    IndexLag,
    Rules,
    ShortPages,
    Slowness,
    Throttling,
    TornPages,
    Transactions,
    Unprocessed,
)
from holdfast.testing.hostile.streams import Disorder, disordered

__all__ = [
    "HOSTILE",
    "KIND",
    "LIKE_THE_SERVICE",
    "Capacity",
    "Cuts",
    "Disorder",
    "Failures",
    "Fault",
    "HostileDynamoDB",
    "IndexLag",
    "Report",
    "Rules",
    "ShortPages",
    "Slowness",
    "Throttling",
    "TornPages",
    "Transactions",
    "Unprocessed",
    "disordered",
]
