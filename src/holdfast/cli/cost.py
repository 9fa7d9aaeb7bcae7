"""``holdfast cost``: what things cost on AWS, calculated without it. Trials are in ``cost_trial``."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from holdfast.cli.cost_trial import actor, workflow
from holdfast.cli.output import as_json, bold, dollars, echo, table
from holdfast.cli.session import debug_option, examples, json_option
from holdfast.cost.prices import US_EAST_1
from holdfast.cost.tables import PRINTED_OTHERWISE, Table, tables

PRICED = f"Dollars per million; prices of {US_EAST_1.region}, on demand, {US_EAST_1.date}."


@click.group("cost", epilog=examples("holdfast cost workflow -a shop:app checkout '[\"order-17\"]'"))
def cost() -> None:
    """What things cost on AWS, calculated from its list prices without it."""


cost.add_command(workflow)
cost.add_command(actor)


@cost.command("tables", epilog=examples("holdfast cost tables", "holdfast cost tables --json"))
@json_option
@debug_option
def tables_(*, as_json: bool, debug: bool) -> None:
    """Print two published tables of the cost of checkpoints, calculated again from their formulas.

    Where the published figure differs from the formulas, the cell shows it in parentheses.
    """
    del debug  # nothing here fails
    echo(_tables_as_json() if as_json else "\n".join(_tables_as_lines()))


def _tables_as_lines() -> list[str]:
    lines = [PRICED]
    for each in tables():
        rows = [[name, *(_cell(name, *figure) for figure in _figures(each, row))] for name, row in each.rows]
        lines += ["", bold(each.title), *table(each.headings, rows)]
    return [*lines, "", "* printed with the figure in parentheses, which does not follow from the formulas"]


def _figures(found: Table, row: tuple[Decimal, ...]) -> list[tuple[str, Decimal]]:
    return list(zip(found.headings[1:], row, strict=True))


def _cell(name: str, heading: str, amount: Decimal) -> str:
    printed = PRINTED_OTHERWISE.get((name, heading))
    return dollars(amount) if printed is None else f"{dollars(amount)}* ({dollars(printed)})"


def _tables_as_json() -> str:
    def row(found: Table, name: str, figures: tuple[Decimal, ...]) -> dict[str, Any]:
        return {found.headings[0]: name} | {heading: float(amount) for heading, amount in _figures(found, figures)}

    shown = [{"title": each.title, "rows": [row(each, *found) for found in each.rows]} for each in tables()]
    otherwise = [
        {"row": name, "column": heading, "printed": float(amount)}
        for (name, heading), amount in PRINTED_OTHERWISE.items()
    ]
    prices = {"region": US_EAST_1.region, "date": US_EAST_1.date}
    return as_json({"prices": prices, "tables": shown, "printed_otherwise": otherwise})
