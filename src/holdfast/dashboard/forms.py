"""Forms: what a page sends when a person acts."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from holdfast.http.problems import Problem

LARGEST_FORM_BYTES: Final = 1024 * 1024
"""The largest form. The value of a signal, or new arguments, may be in it."""

FORM_FIELDS: Final = 400
URLENCODED: Final = "application/x-www-form-urlencoded"

TOKEN_FIELD: Final = "csrf"  # noqa: S105 - the name of a field
ID_FIELD: Final = "form"


class Form:
    """The fields of a form, in order; a field may be repeated."""

    def __init__(self, body: bytes) -> None:
        try:
            self._pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FORM_FIELDS)
        except ValueError:
            raise Problem(400, "invalid_input", "the form is not one that a page of this dashboard has sent") from None

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for each, value in self._pairs if each == name]

    def has(self, name: str) -> bool:
        """Whether there is such a field, which may be empty."""
        return any(each == name for each, _ in self._pairs)

    def one(self, name: str) -> str:
        """The value of a field; empty without one. Of repeated fields it is the first."""
        return next(iter(self.all(name)), "")

    def beginning(self, prefix: str) -> dict[str, str]:
        """The fields whose names begin so, without the prefix."""
        return {name.removeprefix(prefix): value for name, value in self._pairs if name.startswith(prefix)}

    def pairs(self) -> list[tuple[str, str]]:
        """All fields but the token, to be sent again by a page that asks whether it is meant."""
        return [pair for pair in self._pairs if pair[0] != TOKEN_FIELD]


def check_form_size(size_bytes: int) -> None:
    """Raise ``Problem`` if a form is too large."""
    if size_bytes > LARGEST_FORM_BYTES:
        raise Problem(413, "payload_too_large", f"the form is over {LARGEST_FORM_BYTES} bytes")
