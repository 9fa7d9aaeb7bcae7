"""The limits of Step Functions, which ``compat="aws"`` keeps so that what fails there fails here."""

from __future__ import annotations

from typing import Any, Final, Literal

from holdfast.asl.errors import DATA_LIMIT_EXCEEDED, StatesError
from holdfast.asl.jsontext import size_bytes

LARGEST_PAYLOAD_BYTES: Final = 262_144
"""256 KiB: the input or result of a state, a task or an execution."""

EXPRESS_SECONDS: Final = 300
"""How long an express execution may take (Step Functions Developer Guide, "Quotas")."""

Compat = Literal["aws"] | None


def check_size(value: Any, about: str, compat: Compat) -> None:
    """Raise ``States.DataLimitExceeded`` for a value that is too large for AWS, if its limits are kept.

    ``about`` is the state or the resource whose result it is.
    """
    if compat == "aws" and size_bytes(value) > LARGEST_PAYLOAD_BYTES:
        raise StatesError(
            DATA_LIMIT_EXCEEDED,
            f"The state/task '{about}' returned a result with a size exceeding the maximum number of bytes service "
            "limit.",
        )
