"""What TestState refuses: the error that AWS answers instead of a result."""

from __future__ import annotations

from typing import Final

from holdfast.errors import InvalidInput

VALIDATION: Final = "ValidationException"
DEFINITION: Final = "InvalidDefinition"
INPUT: Final = "InvalidExecutionInput"


class Refused(InvalidInput):
    """The request is refused. ``aws_code`` is the error's name in the API of Step Functions."""

    def __init__(self, message: str, aws_code: str = VALIDATION) -> None:
        super().__init__(message)
        self.aws_code = aws_code
