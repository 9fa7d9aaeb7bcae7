"""The value of a signal in a form: JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.http.api import plain_json

if TYPE_CHECKING:
    from holdfast.dashboard.forms import Form
    from holdfast.dashboard.visit import Visit


def signal_value(_visit: Visit, _workflow: str, _name: str, form: Form) -> Any:
    """The value that a form gives a signal; ``None`` for an empty field. Raises ``InvalidInput``."""
    text = form.one("value").strip()
    return plain_json(text.encode(), "the value of the signal") if text else None
