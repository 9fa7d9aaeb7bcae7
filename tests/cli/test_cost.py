"""``holdfast cost``: what things would cost on AWS."""

from __future__ import annotations

import json


def test_the_tables_are_printed_with_the_cell_that_does_not_follow(shop):
    result = shop.invoke("cost", "tables")
    assert result.exit_code == 0
    assert "1 KB        8.25                1.65            8.00            0.525" in result.stdout
    assert "3.725* (3.735)" in result.stdout
    assert "us-east-1, on demand" in result.stdout


def test_the_tables_in_json(shop):
    answer = json.loads(shop.invoke("cost", "tables", "--json").stdout)
    by_size, by_count = answer["tables"]
    assert by_size["rows"][1] == {
        "size": "8 KB",
        "Durable checkpoint": 10.0,
        "own checkpoint": 6.025,
        "Durable replay": 8.0,
        "own replay": 0.65,
    }
    assert by_count["rows"][3]["8"] == 3.725
    assert answer["printed_otherwise"] == [{"row": "16 KB+", "column": "8", "printed": 3.735}]
