"""The findings of ``holdfast doctor`` about the services that a home uses besides its store."""

from __future__ import annotations

from holdfast.cli.checks.finding import OK, WARN, Finding
from holdfast.ports import Home


async def check_services(home: Home) -> list[Finding]:
    """One finding for each service, none if there are no others than the store."""
    if home.services is None:
        return []
    return [
        Finding(OK, each.service, each.told)
        if each.lack is None
        else Finding(WARN, each.service, f"{each.lack}; {each.told}")
        for each in await home.services.check()
    ]
