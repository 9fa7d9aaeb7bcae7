"""How large and how deep data may be: what one value can be here, and what ``compat="aws"`` keeps of Step Functions."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from holdfast.asl.errors import DATA_LIMIT_EXCEEDED, RUNTIME, StatesError
from holdfast.asl.jsontext import size_bytes
from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS, encode, nests_too_deep
from holdfast.codec.parameters import INPUT_LIMIT_BYTES
from holdfast.codec.typed import codec_for
from holdfast.errors import InvalidInput, PayloadTooLarge

LARGEST_PAYLOAD_BYTES: Final = 262_144
"""256 KiB: the input or result of a state, a task or an execution."""

EXPRESS_SECONDS: Final = 300
"""How long an express execution may take (Step Functions Developer Guide, "Quotas")."""

Compat = Literal["aws"] | None

_any: Final = codec_for(Any)


class Quota(Struct, frozen=True):
    """What a value of a machine may be: ``limit_bytes`` is that of the app."""

    compat: Compat = None
    limit_bytes: int = INPUT_LIMIT_BYTES

    def check(self, value: Any, about: str) -> None:
        """Raise ``States.DataLimitExceeded`` for a value that is too large or nests too deep to be carried on.

        ``about`` is the state or the resource whose result it is.
        """
        if self.compat == "aws" and size_bytes(value) > LARGEST_PAYLOAD_BYTES:
            raise _exceeded(about, "with a size exceeding the maximum number of bytes service limit")
        try:
            data = encode(value)
        except RecursionError:
            raise _too_deep(about) from None
        except Exception as error:
            raise StatesError(RUNTIME, f"The state/task '{about}' returned a result without a JSON form") from error
        if len(data) > self.limit_bytes:
            raise _exceeded(about, "with a size exceeding the maximum number of bytes service limit")
        if nests_too_deep(data):
            raise _too_deep(about)

    def check_output(self, output: Any) -> None:
        """Raise ``StatesError`` unless this can be recorded as the output of an execution."""
        try:
            _any.copy(output, "the output of the execution", self.limit_bytes)
        except PayloadTooLarge as error:
            raise StatesError(DATA_LIMIT_EXCEEDED, str(error)) from error
        except InvalidInput as error:
            raise StatesError(RUNTIME, str(error)) from error


def _too_deep(about: str) -> StatesError:
    return _exceeded(about, f"that nests more than {NESTING_LIMIT_LEVELS} levels deep")


def _exceeded(about: str, how: str) -> StatesError:
    return StatesError(DATA_LIMIT_EXCEEDED, f"The state/task '{about}' returned a result {how}.")
