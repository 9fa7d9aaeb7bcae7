"""What expressions can see: the value they are about, the context object, and the variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace


class Environment(Struct, frozen=True, gc=False):
    """Where an expression is evaluated. ``input`` is what ``$`` means, ``context`` what ``$$`` means."""

    input: Any
    context: Mapping[str, Any] = {}
    variables: Mapping[str, Any] = {}

    def about(self, value: Any) -> Environment:
        """The same, with another value for ``$``."""
        return replace(self, input=value)
