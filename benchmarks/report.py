"""The report: rows as data, and as a table."""

from __future__ import annotations

import math
import statistics
from typing import Any

from benchmarks.plan import Better, Row
from benchmarks.rounds import Measured, Samples

RowData = dict[str, Any]

RANK = {"higher": "more is better", "lower": "less is better"}


def rows_of(measured: Measured) -> list[RowData]:
    """The rows of a case, those that were measured."""
    return [row for each in measured.case.rows if (row := _row(each, measured)) is not None]


def _row(row: Row, measured: Measured) -> RowData | None:
    ours = _samples(measured.ours, row.metric, row)
    if ours is None:
        return None
    peers, ranges, ways = {}, {}, {}
    for name, samples in measured.peers.items():
        found = _samples(samples, row.at_the_peer, row) if row.at_the_peer else None
        if found is not None:
            way, values = found
            peers[name], ranges[name] = statistics.median(values), [min(values), max(values)]
            if way:
                ways[name] = way
    value = statistics.median(ours[1])
    return {
        "name": row.name,
        "unit": row.unit,
        "ours": value,
        "peers": peers,
        "ratio": _ratio(value, peers.values(), row.better),
        "better": row.better,
        "aim": row.aim,
        "settings": {
            "case": measured.case.name,
            "rounds": len(ours[1]),
            "range": [min(ours[1]), max(ours[1])],
            "ours": [{**run.params, "function": run.function} for run in measured.case.ours],
            "peer_ranges": ranges,
            "peer_ways": ways,
            "peer_params": [{**peer.params, "function": peer.function} for peer in measured.case.peers],
            "peer_notes": {name: samples.notes for name, samples in measured.peers.items()},
        },
    }


def _samples(samples: Samples, metric: str, row: Row) -> tuple[str, list[float]] | None:
    if not row.over:
        return samples.best(metric, row.better)
    way_values, over = samples.best(metric, row.better), samples.best(row.over, row.better)
    if way_values is None or over is None:
        return None
    return way_values[0], [one / other for one, other in zip(way_values[1], over[1], strict=False)]


def _ratio(ours: float, peers: Any, better: Better) -> float | None:
    """How many times better than the best peer we are; below 1 means worse."""
    values = list(peers)
    if not values or ours <= 0:
        return None
    return ours / max(values) if better == "higher" else min(values) / ours


# ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────────


def table(rows: list[RowData]) -> str:
    """All rows, aligned, each with its spread, every peer's figure, the ratio to the best of them and the aim."""
    peers = list(dict.fromkeys(name for row in rows for name in row["peers"]))
    lines = [("", "unit", "Holdfast", "min–max", *peers, "ratio", "aim")]
    lines += [_line(row, peers) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = []
    for line in lines:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        texts.append("  ".join(cells).rstrip())
    texts.insert(1, "─" * max(map(len, texts)))
    return "\n".join(texts)


def _line(row: RowData, peers: list[str]) -> tuple[str, ...]:
    low, high = row["settings"]["range"]
    aim = ""
    if row["aim"] is not None:
        met = row["ours"] >= row["aim"] if row["better"] == "higher" else row["ours"] <= row["aim"]
        aim = f"{'≥' if row['better'] == 'higher' else '≤'} {number(row['aim'])} {'✓' if met else '✗'}"
    ratio = "" if row["ratio"] is None else f"{number(row['ratio'])} ×"
    of_peers = [number(row["peers"][name]) if name in row["peers"] else "" for name in peers]
    return row["name"], row["unit"], number(row["ours"]), f"{number(low)}–{number(high)}", *of_peers, ratio, aim


def number(value: float) -> str:
    """Three significant digits, and no more precision than that pretends to."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(0, digits)}f}" if digits <= 0 or rounded != int(rounded) else f"{int(rounded):,}"
