"""What comes from outside, as somebody hostile writes it: any text, text that is nearly right, and too much of it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

TIMES = st.sampled_from([1] * 40 + [10, 1_000, 30_000])
"""How often a piece is repeated. Much of it is rare, or nothing else would be tried in the same time."""

ODD = [
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "\U0001f600",
    "٣",
    "%",
    "%00",
    "%FF",
    "%2F",
    "..",
    "../",
    "/",
    "~",
    "!",
    "#",
    "\n",
]


def text(*likely: str) -> st.SearchStrategy[str]:
    """Text made of words that are likely to matter, of odd characters, and of anything."""
    piece = st.sampled_from([*likely, *ODD]) | st.text(max_size=8)
    return st.lists(st.builds(str.__mul__, piece, TIMES), max_size=6).map("".join)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, -0.0])
    | st.floats(allow_nan=False, allow_infinity=False)
    | text("2026-11-30T12:00:00Z", "P1D", "1.5", "a2V5", "00000000-0000-0000-0000-000000000000")
)

VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(text("a", "name"), part, max_size=4),
    max_leaves=12,
)


def encoded(value: Any) -> bytes:
    """JSON, whatever its text holds."""
    return json.dumps(value).encode()


JSON = VALUES.map(encoded)
BROKEN = st.builds(
    bytes.__mul__,
    st.sampled_from(
        [
            b"[",
            b"]",
            b"{",
            b'{"a":',
            b'"',
            b"\\",
            b'"[',
            b"[],",
            b"1",
            b"1e",
            b"0.",
            b"-",
            b"nul",
            b"\xff",
            b",",
            b'"\\u',
            b" ",
        ]
    ),
    st.sampled_from([1, 3, 64, 65] * 5 + [5_000, 200_000]),
)
BODIES = JSON | BROKEN | st.binary(max_size=60) | st.builds(lambda one, two: one + two, BROKEN, JSON)


def mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """Bytes that were right, with some of them changed, cut out, or repeated."""

    def change(places: list[tuple[int, int, bytes]]) -> bytes:
        changed = data
        for place, cut, new in places:
            at = place % (len(changed) + 1)
            changed = changed[:at] + new + changed[at + cut :]
        return changed

    one = st.tuples(
        st.integers(0, len(data)), st.integers(0, 8), st.binary(max_size=6) | st.sampled_from([b'"', b"}", b"\n", b"0"])
    )
    return st.lists(one, max_size=4).map(change)
