"""The option of lists of a home that has no order of what it holds: they read all of it, which is billed."""

from __future__ import annotations

from typing import Final

import click

NONE_SO_FAR: Final = "none so far, and not all was read"
"""What a page without rows says that is not the last one."""

scan_option: Final = click.option("--scan", is_flag=True, help="On AWS, read the whole table, which is billed.")
