"""What names may be, and the ARNs of requests. Limits: Step Functions Developer Guide, "Quotas"."""

from __future__ import annotations

import re
from typing import Final

from holdfast.asl.arns import ACTIVITY, EXECUTION, EXPRESS, MAP_RUN, STATE_MACHINE, Arn, read_arn
from holdfast.http.states.faults import invalid_arn, invalid_name, unsatisfied

LONGEST_NAME_CHARACTERS: Final = 80

_NAME: Final = re.compile(r"""[^\s<>{}\[\]?*"#%\\^|~`$&,;:/\u0000-\u001f\u007f-\u009f\ufffe\uffff]{1,80}""")
_ALIAS: Final = re.compile(r"(?=.*[a-zA-Z_\-.])[a-zA-Z0-9_\-.]{1,80}")


def checked_name(name: str) -> str:
    """The name of a machine, an execution or an activity. Raises ``Fault``."""
    if _NAME.fullmatch(name) is None:
        raise invalid_name(name)
    return name


def checked_alias(name: str) -> str:
    """The name of an alias, which cannot be mistaken for a version. Raises ``Fault``."""
    if _ALIAS.fullmatch(name) is None:
        pattern = "^(?=.*[a-zA-Z_\\-\\.])[a-zA-Z0-9_\\-\\.]+$"
        raise unsatisfied(name, "name", f"satisfy regular expression pattern: {pattern}")
    return name


def machine_arn(text: str) -> Arn:
    """The ARN of a machine, perhaps with a version or an alias. Raises ``Fault``."""
    return _arn(text, STATE_MACHINE)


def execution_arn(text: str) -> Arn:
    """The ARN of an execution. Raises ``Fault``."""
    return _arn(text, EXECUTION, EXPRESS)


def map_run_arn(text: str) -> Arn:
    """The ARN of a map run. Raises ``Fault``."""
    return _arn(text, MAP_RUN)


def activity_arn(text: str) -> Arn:
    """The ARN of an activity. Raises ``Fault``."""
    return _arn(text, ACTIVITY)


def _arn(text: str, *kinds: str) -> Arn:
    found = read_arn(text, *kinds)
    if found is None:
        raise invalid_arn(text)
    return found
