"""What metrics and traces cost: one-step workflows, 64 at a time, in memory; the ways take turns in one run.

Traces are made by OpenTelemetry's SDK, for an exporter that does nothing. Compare ratios of one run alone: the machine
may have other work.

python -m benchmarks.observed [WORKFLOWS] [ROUNDS]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import holdfast as hf
import holdfast.otel

AT_A_TIME = 64
WARM = 200
WAYS = ("off", "metrics", "traces")


class Nowhere(SpanExporter):
    """Takes spans, counts them, and does nothing with them."""

    def __init__(self) -> None:
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        return SpanExportResult.SUCCESS


async def rate(way: str, count: int) -> tuple[float, int, int]:
    """Workflows a second, and how many spans were exported and dropped. Spans are made before the clock is stopped."""
    app, exporter = hf.App("shop", home="memory://"), Nowhere()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=10 * count))
    if way == "traces":
        holdfast.otel.trace(app, provider=provider)

    @app.step
    async def charge(cents: int) -> int:
        return cents

    @app.workflow
    async def checkout(cents: int) -> int:
        return await charge(cents)

    async def one_after_another(numbers: range) -> None:
        for number in numbers:
            await checkout(number)

    async def together(count: int) -> None:
        each = count // AT_A_TIME
        await asyncio.gather(*(one_after_another(range(each)) for _ in range(AT_A_TIME)))

    async with app.worker():
        if way == "metrics":
            app.prometheus()
        await together(WARM)
        began = time.perf_counter()
        await together(count)
        if way == "traces":
            holdfast.otel.flush(app, 60)
        seconds = time.perf_counter() - began
    provider.shutdown()
    return count // AT_A_TIME * AT_A_TIME / seconds, exporter.taken, app.telemetry.counts["spans_dropped"]


async def main(count: int, rounds: int) -> None:
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    exported = dropped = 0
    for number in range(rounds):
        for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
            found, taken, lost = await rate(way, count)
            rates[way].append(found)
            exported, dropped = exported + taken, dropped + lost
    print(f"{rounds} rounds of {count:,} one-step workflows, {AT_A_TIME} at a time, in memory")
    for way in WAYS:
        ratios = [off / mine for off, mine in zip(rates["off"], rates[way], strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{way:<8} {statistics.median(rates[way]):>8,.0f}/s, time x {statistics.median(ratios):.2f} ({spread})")
    print(f"{exported:,} spans exported, {dropped:,} dropped")


if __name__ == "__main__":
    count, rounds = (*sys.argv[1:], *("2000", "7")[len(sys.argv) - 1 :])
    asyncio.run(main(int(count), int(rounds)))
