"""Whether a call of an intrinsic function has as many arguments as it takes, and constants of the right type.

Source: https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.asl.intrinsic_functions import Literal
from holdfast.asl.intrinsics import Call

ANY: Final = object
NUMBER: Final = (int, float)
TEXT: Final = str
MANY: Final = 1_000_000

PARAMETERS: Final[dict[str, tuple[int, int, tuple[Any, ...]]]] = {
    "Array": (0, MANY, ()),
    "ArrayPartition": (2, 2, (list, NUMBER)),
    "ArrayContains": (2, 2, (list, ANY)),
    "ArrayRange": (3, 3, (NUMBER, NUMBER, NUMBER)),
    "ArrayGetItem": (2, 2, (list, NUMBER)),
    "ArrayLength": (1, 1, (list,)),
    "ArrayUnique": (1, 1, (list,)),
    "Base64Encode": (1, 1, (TEXT,)),
    "Base64Decode": (1, 1, (TEXT,)),
    "Hash": (2, 2, (ANY, TEXT)),
    "JsonMerge": (3, 3, (dict, dict, bool)),
    "StringToJson": (1, 1, (TEXT,)),
    "JsonToString": (1, 1, (ANY,)),
    "MathRandom": (2, 3, (NUMBER, NUMBER, NUMBER)),
    "MathAdd": (2, 2, (NUMBER, NUMBER)),
    "StringSplit": (2, 2, (TEXT, TEXT)),
    "UUID": (0, 0, ()),
    "Format": (1, MANY, (TEXT,)),
}
"""By name: the fewest and the most arguments, and the types of the first of them."""


def misused(call: Call) -> bool:
    """Whether a call cannot work, whatever the paths in it lead to."""
    fewest, most, types = PARAMETERS[call.name]
    if not fewest <= len(call.arguments) <= most:
        return True
    if any(isinstance(argument, Call) and misused(argument) for argument in call.arguments):
        return True
    return any(not fits(argument, kind) for argument, kind in zip(call.arguments, types, strict=False))


def fits(argument: Any, kind: Any) -> bool:
    """Whether an argument is of a type; of a path or a call that is known only when it is evaluated."""
    match argument:
        case Literal(value=bool()) if kind is NUMBER:
            return False
        case Literal(value=value):
            return isinstance(value, kind)
        case _:
            return True
