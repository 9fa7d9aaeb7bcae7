"""The charts have a point for what was measured, and say how it varied. Nothing is measured here."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from benchmarks.charts import BARE, CHARTS, OURS, chart_of
from benchmarks.svg import drawn

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_has_every_point_with_its_spread(name: str) -> None:
    samples = {OURS: {1: [100.0, 300.0, 200.0], 64: [1_000.0], 2_048: [950.0]}, BARE: {1: [900.0], 64: [12_000.0]}}
    root = ET.fromstring(drawn(chart_of(name, samples)))  # noqa: S314 - it is ours
    told = [title.text for title in root.iter(f"{SVG}title")]
    assert told[1] == "200 (100 to 300)"
    assert len(told) == 1 + 5
    places = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in root.iter(f"{SVG}circle")]
    assert all(70 <= x <= 640 and 50 <= y <= 320 for x, y in places), places
    assert sorted(places[:3]) == places[:3], "from left to right"
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert {OURS, BARE, "64", CHARTS[name][2]} <= set(texts)
