"""ARNs of state machines, their versions and aliases, executions, map runs and activities.

They are names only: no account of AWS is behind them. An ARN of a home is read whatever its account and region are, so
that definitions which were written for an account run as they are.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

STATE_MACHINE: Final = "stateMachine"
EXECUTION: Final = "execution"
EXPRESS: Final = "express"
MAP_RUN: Final = "mapRun"
ACTIVITY: Final = "activity"

DOCUMENTS: Final = (STATE_MACHINE, ACTIVITY)
"""Kinds that a home keeps by name; not each text can be the name of a document."""
LONGEST_ARN_CHARACTERS: Final = 256
"""Of a machine or an activity. Source: the API Reference. That of an execution which Python started may be longer."""

_ARN: Final = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):states:(?P<region>[a-z0-9-]*):(?P<account>\d{12}):(?P<rest>.+)"
)
_PARTS: Final = {STATE_MACHINE: (1, 2), EXECUTION: (2,), EXPRESS: (2, 3), MAP_RUN: (2,), ACTIVITY: (1,)}


class Account(Struct, frozen=True):
    """What the ARNs of a home begin with."""

    region: str = "us-east-1"
    account: str = "000000000000"
    partition: str = "aws"

    def arn(self, kind: str, *names: str) -> str:
        """The ARN of something.

        >>> Account().arn(STATE_MACHINE, "orders")
        'arn:aws:states:us-east-1:000000000000:stateMachine:orders'
        """
        return ":".join(("arn", self.partition, "states", self.region, self.account, kind, *names))


class Arn(Struct, frozen=True):
    """An ARN that was read: what it is of, and its names in order."""

    kind: str
    names: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        """The first of its names: that of the machine or the activity."""
        return self.names[0]

    @property
    def last(self) -> str:
        """The last of its names: that of the execution, the version or the alias, where it has one."""
        return self.names[-1]

    @property
    def qualifier(self) -> str:
        """The version or the alias in the ARN of a machine; empty if it has none."""
        return self.names[1] if self.kind == STATE_MACHINE and len(self.names) > 1 else ""


def read_arn(text: str, *kinds: str) -> Arn | None:
    """An ARN of one of these kinds; ``None`` if it is none.

    >>> read_arn("arn:aws:states:eu-west-1:123456789012:execution:orders:o-17", EXECUTION).names
    ('orders', 'o-17')
    """
    found = _ARN.fullmatch(text)
    if found is None:
        return None
    kind, *names = found["rest"].split(":")
    if kind == MAP_RUN and len(names) == 2:
        names = [*names[0].split("/", 1), names[1]]
        return Arn(kind, tuple(names), text) if kind in kinds else None
    if kind == EXECUTION:  # the id of an execution that was started in Python may have colons
        names = [*names[:1], ":".join(names[1:])]
    if kind not in kinds or not all(names) or len(names) not in _PARTS[kind]:
        return None
    if kind in DOCUMENTS and not (text.isprintable() and "#" not in text and len(text) <= LONGEST_ARN_CHARACTERS):
        return None
    return Arn(kind, tuple(names), text)
