"""What is measured: a case is some work, done by Holdfast and by peers in turn; its rows are what is reported of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Params = dict[str, Any]
Samples = float | list[float]
Values = dict[str, Samples]

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Ours:
    """A function of a group's module, run in a process of its own. ``quick`` overrides ``params`` for a short look."""

    function: str
    params: Params = field(default_factory=dict)
    quick: Params = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dbos:
    """A function of ``peers/measure_dbos.py``. It is run once per journal mode and variant; the best variant counts.

    ``variants`` are overrides of ``params`` by name: the ways in which the peer can do the same work. In SQLite's
    default journal mode it is several times slower than in WAL, so only the first round has that: ``default_journal``
    overrides ``params`` there, and ``only_wal`` leaves it out.
    """

    function: str
    params: Params = field(default_factory=dict)
    quick: Params = field(default_factory=dict)
    variants: dict[str, Params] = field(default_factory=lambda: {"": {}})
    default_journal: Params = field(default_factory=dict)
    only_wal: bool = False


@dataclass(frozen=True, slots=True)
class Restate:
    """A function of ``peers/measure_restate.py``. It is run once per web server for the handlers; the better counts."""

    function: str
    params: Params = field(default_factory=dict)
    quick: Params = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Durable:
    """A function of ``peers/measure_durable.py``."""

    function: str
    params: Params = field(default_factory=dict)
    quick: Params = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Powertools:
    """A function of ``peers/measure_powertools.py``."""

    function: str
    params: Params = field(default_factory=dict)
    quick: Params = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moto:
    """A function of ``peers/measure_moto.py``."""

    function: str
    params: Params = field(default_factory=dict)
    quick: Params = field(default_factory=dict)


Peer = Dbos | Restate | Durable | Powertools | Moto

IMPORTED = "imported"
"""The function of every peer that is no function of its script: what importing it costs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: ``metric`` of the case's values, divided by ``over`` if that is given.

    ``aim`` is DESIGN §9's; ``peer_metric`` is there where the peers call it otherwise, "" where they lack it.
    """

    name: str
    unit: str
    better: Better
    metric: str
    over: str = ""
    aim: float | None = None
    peer_metric: str | None = None

    @property
    def at_the_peer(self) -> str:
        """The metric's name among a peer's values."""
        return self.metric if self.peer_metric is None else self.peer_metric


@dataclass(frozen=True, slots=True)
class Case:
    """Some work and the rows it yields. ``peer_rounds``: the peers take too long to be asked as often as we are.

    ``emulator``: all of it gets the address of one DynamoDB Local, as the parameter ``endpoint``.
    """

    name: str
    group: str
    ours: tuple[Ours, ...]
    rows: tuple[Row, ...]
    peers: tuple[Peer, ...] = ()
    rounds: int = 3
    peer_rounds: int | None = None
    only_huge: bool = False
    emulator: bool = False

    def matches(self, wanted: str) -> bool:
        """Whether ``--only wanted`` means this case: by its name, its group's, or that of one of its rows."""
        names = (self.name, self.group, *(row.name for row in self.rows))
        return any(wanted.lower() in name.lower() for name in names)
