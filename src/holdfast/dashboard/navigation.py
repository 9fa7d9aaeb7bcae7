"""The addresses of the pages, and the right that each needs: that of the command that it reads with."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.commands.right import Right


class Address(Struct, frozen=True):
    """A page below the dashboard. One without a label is reached from others; one of the whole ``home`` is not for
    callers that are confined to a tenant.
    """

    page: str
    label: str
    right: Right
    is_of_home: bool = False


ADDRESSES: Final = (
    Address("overview", "Overview", Right.READ, is_of_home=True),
    Address("executions", "Executions", Right.READ),
    Address("execution", "", Right.READ),
    Address("signal", "", Right.WRITE),
    Address("actors", "Actors", Right.CONTROL),
    Address("actor", "", Right.CONTROL),
    Address("letters", "Dead letters", Right.CONTROL),
    Address("letter", "", Right.CONTROL),
    Address("queues", "Queues", Right.READ, is_of_home=True),
    Address("queue", "", Right.READ, is_of_home=True),
    Address("limits", "Limits", Right.READ, is_of_home=True),
    Address("limit", "", Right.READ, is_of_home=True),
    Address("outbox", "Outbox and bus", Right.READ, is_of_home=True),
    Address("schedules", "Schedules", Right.READ, is_of_home=True),
    Address("leases", "Leases", Right.READ, is_of_home=True),
    Address("workers", "Workers", Right.READ, is_of_home=True),
    Address("metrics", "Metrics", Right.READ, is_of_home=True),
    Address("audit", "Audit", Right.CONTROL, is_of_home=True),
)
"""All pages, in the order in which every page links to them."""
