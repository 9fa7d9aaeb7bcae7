"""Templates: jinja2 with automatic escaping, and the few filters that pages share."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from holdfast import ids
from holdfast.clock import moment
from holdfast.dashboard.links import link, on_text
from holdfast.texts import masked, printable, printable_lines

if TYPE_CHECKING:
    from holdfast.dashboard.visit import Visit

PACKAGE: Final = "holdfast.dashboard"
STATIC_KINDS: Final = {
    "hf.css": "text/css; charset=utf-8",
    "hf.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
LONGEST_SHOWN: Final = 28
END_SHOWN: Final = 8
LONGEST_TEXT: Final = 20_000
"""How much of a payload a page shows, in characters."""


def render(visit: Visit, template: str, code: int = 200, /, **values: Any) -> HTMLResponse:
    """A page, or only its content if that is what the visit asks for."""
    frame = "fragment.html" if visit.is_fragment else "frame.html"
    return HTMLResponse(page_text(visit, template, frame, **values), code)


def page_text(visit: Visit, template: str, frame: str, /, **values: Any) -> str:
    """The text of a page in a frame."""
    found = environment().get_template(template)
    return found.render(visit=visit, frame=frame, url=visit.link, now_ms=visit.now_ms, **values)


def render_bare(root: str, title: str, template: str, code: int = 200, /, **values: Any) -> HTMLResponse:
    """A page for a caller who is not known."""

    def url(page: str, /, **names: Any) -> str:
        return link(root, page, **names)

    text = environment().get_template(template).render(frame="bare.html", url=url, title=title, **values)
    return HTMLResponse(text, code)


@cache
def environment() -> Environment:
    """The templates. They are loaded once, and never change while a process runs."""
    made = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters, names = cast("dict[str, Any]", made.filters), cast("dict[str, Any]", made.globals)
    filters.update(iso=iso, exact=exact, ago=ago, took=took, middle=middle)
    filters.update(plain=printable, lines=printable_lines, masked=masked)
    names.update(static_version=static_version(), on_text=on_text, new_id=ids.new_id)
    return made


@cache
def static_file(name: str) -> bytes | None:
    """A file that pages use, whole; ``None`` if there is no such file."""
    return files(PACKAGE).joinpath("static", name).read_bytes() if name in STATIC_KINDS else None


@cache
def static_version() -> str:
    """A digest of all files that pages use: part of their addresses, so that browsers may keep them."""
    digest = hashlib.sha256()
    for name in STATIC_KINDS:
        digest.update(static_file(name) or b"")
    return digest.hexdigest()[:12]


# ── Filters ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _as_moment(time: datetime | int | str) -> datetime:
    if isinstance(time, str):
        return datetime.fromisoformat(time)
    return time if isinstance(time, datetime) else moment(time)


def iso(time: datetime | int | str) -> str:
    """A time, which may be in milliseconds or in ISO 8601, for machines."""
    return _as_moment(time).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def exact(time: datetime | int | str) -> str:
    """A time for people, to the millisecond, in UTC."""
    return _as_moment(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def ago(time: datetime | int | str, now_ms: int) -> str:
    """How long ago a time was, or how far ahead it is.

    >>> ago(0, 90_000), ago(7_200_000, 0)
    ('1 min ago', 'in 2 h')
    """
    behind_ms = now_ms - round(_as_moment(time).timestamp() * 1_000)
    told = rounded(abs(behind_ms))
    if told == "0 s":
        return "now"
    return f"{told} ago" if behind_ms > 0 else f"in {told}"


def rounded(length_ms: float) -> str:
    """A length of time in its largest unit.

    >>> rounded(999), rounded(61_000), rounded(3 * 86_400_000)
    ('0 s', '1 min', '3 d')
    """
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if length_ms >= unit_ms:
            return f"{int(length_ms // unit_ms)} {unit}"
    return f"{int(length_ms // 1_000)} s"


def took(length_ms: float) -> str:
    """A length of time, with three digits.

    >>> took(7), took(1_234), took(75_000), took(5_400_000)
    ('7 ms', '1.23 s', '1 min 15 s', '1 h 30 min')
    """
    if length_ms < 1_000:
        return f"{round(length_ms)} ms"
    if length_ms < 60_000:
        return f"{length_ms / 1_000:.3g} s"
    minutes, left = divmod(round(length_ms / 1_000), 60)
    if minutes < 60:
        return f"{minutes} min {left} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def cut(text: str) -> str:
    """A text for people, cut if it is very long."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n… {len(text)} characters in all"


def middle(text: str, longest: int = LONGEST_SHOWN) -> str:
    """A name on one line, with its middle left out if it is long: beginnings and ends tell names apart.

    >>> middle("0190f3c2a1b2c3d4e5f60718293a4b5c6d7e8f90")
    '0190f3c2a1b2c3d4e5f…6d7e8f90'
    """
    shown = printable(text)
    return shown if len(shown) <= longest else f"{shown[: longest - END_SHOWN - 1]}…{shown[-END_SHOWN:]}"
