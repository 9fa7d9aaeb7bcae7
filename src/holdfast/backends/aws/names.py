"""The names of everything on AWS, given the prefix of a home: for the code that creates it and the code that uses it.

| name | what |
|---|---|
| ``<prefix>-holdfast`` | the table, the event bus, the function, the dashboard |
| ``<prefix>-holdfast-doorbell`` | the queue of hints, and ``…-doorbell-dead`` for hints that could not be handled |
| ``<prefix>-holdfast-ordered.fifo`` | the ordered source into actors, and ``…-ordered-dead.fifo`` |
| ``<prefix>-holdfast-blobs-<account>-<region>`` | the bucket of large values, unless the home's URL names another |
"""

from __future__ import annotations

from typing import Final

DOORBELL: Final = "doorbell"
ORDERED: Final = "ordered"

LIVE: Final = "live"
"""The alias of the function's version that gets wake-ups and sweeps."""

SWEEP: Final = "sweep"
"""Another alias of that version, by which sweeps are invoked: a failed one is not repeated, unlike other events."""

SWEEP_INPUT: Final = {"holdfast": "sweep"}
"""The event with which the function is invoked once a minute."""

CLEAN_UP_INPUT: Final = {"holdfast": "clean-up"}
"""The event with which the function is invoked once an hour."""


def base(prefix: str) -> str:
    """The name of everything that exists once: table, bus, function.

    >>> base("shop")
    'shop-holdfast'
    """
    return f"{prefix}-holdfast"


def queue(prefix: str, which: str, *, dead: bool = False) -> str:
    """The name of the queue ``DOORBELL`` or ``ORDERED``, or of its dead letters.

    >>> queue("shop", DOORBELL), queue("shop", ORDERED, dead=True)
    ('shop-holdfast-doorbell', 'shop-holdfast-ordered-dead.fifo')
    """
    return f"{base(prefix)}-{which}{'-dead' if dead else ''}{'.fifo' if which == ORDERED else ''}"


def function(prefix: str, name: str) -> str:
    """One of several functions: ``main`` has the name that everything has which exists once.

    >>> function("shop", "pdf")
    'shop-holdfast-pdf'
    """
    return base(prefix) if name == "main" else f"{base(prefix)}-{name}"


def doorbell(function: str) -> str:
    """The queue of hints for one of several functions: ``DOORBELL`` for the function ``main``.

    >>> doorbell("pdf")
    'doorbell-pdf'
    """
    return DOORBELL if function == "main" else f"{DOORBELL}-{function}"


def metrics(prefix: str) -> str:
    """The namespace of the metrics of a home: those of sweeps, and those that are counted in its logs."""
    return f"Holdfast/{prefix}"


def bucket(prefix: str, account: str, region: str) -> str:
    """The bucket of large values, of a home whose URL names none."""
    return f"{base(prefix)}-blobs-{account}-{region}"
