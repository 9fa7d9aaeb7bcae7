"""What validation finds: a diagnostic, and the codes of Step Functions.

Codes: https://docs.aws.amazon.com/step-functions/latest/apireference/API_ValidateStateMachineDefinitionDiagnostic.html
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.asl.jsontext import reference_token

ERROR: Final = "ERROR"
"""Step Functions refuses the definition."""
WARNING: Final = "WARNING"
"""Step Functions accepts the definition, and warns."""
STYLE: Final = "STYLE"
"""Step Functions accepts the definition; linters of the language do not."""

SCHEMA: Final = "SCHEMA_VALIDATION_FAILED"
INVALID_JSON: Final = "INVALID_JSON_DESCRIPTION"
MISSING_TARGET: Final = "MISSING_TRANSITION_TARGET"
MISSING_END: Final = "MISSING_END_STATE"
DUPLICATE_NAME: Final = "DUPLICATE_STATE_NAME"
INVALID_NAME: Final = "INVALID_STATE_NAME"
DUPLICATE_LABEL: Final = "DUPLICATE_LABEL_NAME"
INVALID_LABEL: Final = "INVALID_LABEL_NAME"
TOO_DEEP: Final = "TOO_DEEPLY_NESTED"
RESERVED_VARIABLE: Final = "RESERVED_VARIABLE_NAME"
INVALID_VARIABLE: Final = "INVALID_VARIABLE_NAME"
NO_DOLLAR: Final = "NO_DOLLAR"
STATIC_RESULT: Final = "PASS_RESULT_IS_STATIC"
NOT_CHECKED: Final = "JSONATA_NOT_CHECKED"

Path = tuple[str | int, ...]
"""Where something stands in a definition: names of fields, and places in lists."""


class Diagnostic(Struct, frozen=True):
    """One finding. ``line`` and ``column`` begin at 1, and are 0 where the definition was no text.

    ``path`` is ``None`` for what is about the definition as a whole.
    """

    severity: str
    code: str
    message: str
    path: Path | None = None
    line: int = 0
    column: int = 0
    place: str | None = None
    """The location in place of the path's, for a text that is no JSON."""

    @property
    def pointer(self) -> str:
        """The JSON Pointer (RFC 6901) of the value it is about.

        >>> Diagnostic(ERROR, SCHEMA, "…", ("States", "a/b", "Branches", 0)).pointer
        '/States/a~1b/Branches/0'
        """
        return "".join(map(reference_token, self.path or ()))

    @property
    def location(self) -> str | None:
        """The same place as Step Functions writes it.

        >>> Diagnostic(ERROR, SCHEMA, "…", ("States", "a/b", "Branches", 0)).location
        '/States/a/b/Branches[0]'
        """
        if self.path is None:
            return self.place
        return "".join(f"[{part}]" if isinstance(part, int) else f"/{part}" for part in self.path) or "/"
