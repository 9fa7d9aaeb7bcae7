"""Listings of a home that has no order of what it holds: they read all of it, which is billed, so only on demand."""

from __future__ import annotations

from typing import Final

import click

from holdfast.app import App
from holdfast.errors import ConfigurationError

scan_option: Final = click.option("--scan", is_flag=True, help="On AWS, read the whole table, which is billed.")


async def refuse_scan(app: App, *, scan: bool) -> None:
    """Raises ``ConfigurationError`` if a listing would read all that the home holds, without ``scan``."""
    reads_all = app.runtime().home.lists_by_scan
    if scan or reads_all is None or not await reads_all():
        return
    raise ConfigurationError(
        "the list would read the whole table, which is billed: a read unit for each 4 KB. Add --scan to do that, or "
        "have lists read an index, a write unit for each new execution or actor: deploy with --listing, then "
        f"holdfast aws settings '{app.home_url}' --listing index"
    )
