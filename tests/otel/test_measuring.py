"""OpenTelemetry's meter is given what Prometheus is told."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import holdfast.otel


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def app(memory_world, reader):
    app = memory_world.app()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    holdfast.otel.measure(app, provider=provider)
    yield app
    provider.shutdown()


def collected(reader):
    data = reader.get_metrics_data()
    if data is None:
        return {}
    found = [metric for each in data.resource_metrics for scope in each.scope_metrics for metric in scope.metrics]
    return {metric.name: metric for metric in found}


async def test_executions_and_steps_are_measured_with_their_labels_and_in_seconds(app, reader):
    @app.step
    async def charge() -> str:
        return "canary-4711"

    @app.workflow
    async def checkout(card: str) -> str:
        return await charge()

    async with app.worker():
        await checkout("canary-4711")
        metrics, text = collected(reader), app.prometheus()
    (ended,) = metrics["holdfast_executions_ended"].data.data_points
    assert (ended.value, ended.attributes) == (1, {"workflow": "checkout", "status": "COMPLETED"})
    (step,) = metrics["holdfast_step"].data.data_points
    assert (step.count, step.attributes) == (1, {"step": "charge", "outcome": "done"})
    assert metrics["holdfast_step"].unit == "s"
    assert 0 <= step.sum < 60
    assert step.explicit_bounds[0] == 0.005 and step.explicit_bounds[-1] == 300.0
    assert metrics["holdfast_running"].data.data_points[0].value >= 0
    assert 'holdfast_step_seconds_count{step="charge",outcome="done"} 1' in text
    assert "canary" not in str(metrics)


async def test_an_app_that_is_closed_has_no_values_and_no_error(app, reader, caplog):
    assert not {name for name, each in collected(reader).items() if each.data.data_points}
    assert not caplog.records
    async with app:
        assert collected(reader)["holdfast_takeovers"].data.data_points[0].value == 0
