"""``holdfast aws verify``: a home of its own in an account, looked at and measured, and removed again."""

from __future__ import annotations

from holdfast.verify.finding import Finding, Verdict
from holdfast.verify.price import MOST_USD, Estimate, estimate
from holdfast.verify.record import Record, left_behind, read_record
from holdfast.verify.registry import CHECKS, Check
from holdfast.verify.run import Report, remove, verify

__all__ = [
    "CHECKS",
    "MOST_USD",
    "Check",
    "Estimate",
    "Finding",
    "Record",
    "Report",
    "Verdict",
    "estimate",
    "left_behind",
    "read_record",
    "remove",
    "verify",
]
