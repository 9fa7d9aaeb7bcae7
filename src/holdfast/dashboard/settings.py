"""What is said of a dashboard when it is mounted."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from holdfast.errors import ConfigurationError

PATH: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+|/")
API_PATH: Final = "/v1"


class Settings(Struct, frozen=True, kw_only=True):
    """Where a dashboard is, what it is called, and by which names of hosts it is reached."""

    path: str = "/dashboard"
    title: str = ""
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not PATH.fullmatch(self.path) or self.path.split("/")[1] == API_PATH[1:]:
            raise ConfigurationError(
                f"a dashboard cannot be at {self.path!r}: write a path such as /dashboard, of letters, digits, . _ ~ "
                f"and -, without a slash at its end, and not below {API_PATH}"
            )
