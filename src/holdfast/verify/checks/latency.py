"""How long an actor call takes through Lambda: seen from here, the way from here included."""

from __future__ import annotations

from typing import Any, Final

from holdfast.clock import elapsed_seconds
from holdfast.verify.bench import Bench
from holdfast.verify.finding import Finding, differences
from holdfast.verify.invoking import call, invoke
from holdfast.verify.spread import at

COLD: Final = "actor call, cold"
WARM: Final = "actor call, warm"

COLD_CALLS: Final = 5
WARM_CALLS: Final = 100
FIRST_CALLS: Final = 3

ARTICLE_MS: Final = (43, 52)
"""What the article on Durable Lambda says of a call."""


async def cold(bench: Bench) -> Finding:
    """Each call meets an environment that was never used: the function was changed before it."""
    times: list[float] = []
    for number in range(COLD_CALLS):
        await _change(bench, number)
        times.append(await _timed(bench, call(f"cold-{number}", "add", 1), bench.table))
    return differences(COLD, [], told=_told(times), **_figures(times))


async def warm(bench: Bench) -> Finding:
    """Calls of one actor, one after another."""
    for _ in range(FIRST_CALLS):
        await invoke(bench, call("warm", "add", 0))
    times = [await _timed(bench, call("warm", "add", 1), bench.function) for _ in range(WARM_CALLS)]
    counted = await invoke(bench, call("warm", "add", 0))
    wrong = [] if counted == WARM_CALLS else [f"{WARM_CALLS} calls were answered, and the actor counts {counted}"]
    low, high = ARTICLE_MS
    return differences(WARM, wrong, told=f"{_told(times)}; the article says {low} to {high} ms", **_figures(times))


async def _timed(bench: Bench, command: dict[str, Any], function: str) -> float:
    began = elapsed_seconds()
    await invoke(bench, command, function)
    return (elapsed_seconds() - began) * 1000


async def _change(bench: Bench, number: int) -> None:
    """A changed function runs in new environments; its unpublished version is ours alone."""
    await bench.cloud.send(
        "lambda", "UpdateFunctionConfiguration", FunctionName=bench.table, Description=f"cold call {number}"
    )

    async def look() -> bool | None:
        found = await bench.cloud.send("lambda", "GetFunctionConfiguration", FunctionName=bench.table)
        return None if found.get("LastUpdateStatus", "Successful") == "InProgress" else True

    await bench.cloud.until(look, "the change of the function", seconds=120)


def _told(times: list[float]) -> str:
    return f"p50 {at(times, 50):,.0f} ms, p99 {at(times, 99):,.0f} ms, of {len(times)} calls"


def _figures(times: list[float]) -> dict[str, float]:
    return {"p50, ms": at(times, 50), "p99, ms": at(times, 99)}
