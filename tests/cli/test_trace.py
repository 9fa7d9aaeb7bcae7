"""``holdfast trace``: to a collector stand-in by real HTTP."""

from __future__ import annotations

import sys

from tests.otel.test_otlp import Collector

import holdfast


def test_it_sends_the_spans_of_an_execution(shop, worker):
    collector = Collector()
    try:
        shop.json("start", "checkout", '["visa"]', "--id", "a", "--wait")
        answer = shop.json("trace", "checkout", "a", "--otlp", collector.url)
        assert answer == {"workflow": "checkout", "id": "a", "spans": 2}
        assert sorted(span.name for span in collector.spans) == ["step charge", "workflow checkout"]
        assert shop.refusal("trace", "checkout", "b", "--otlp", collector.url)["code"] == "not_found"
    finally:
        collector.server.shutdown()
        collector.server.server_close()


def test_what_is_no_url_is_refused(shop):
    assert "collector" in shop.refusal("trace", "checkout", "a", "--otlp", "localhost:4318")["message"]


def test_without_the_extra_it_says_what_to_install(shop, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("holdfast.otel")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(holdfast, "otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert ".[otel]" in shop.refusal("trace", "checkout", "a", "--otlp", "http://localhost:4318")["message"]
