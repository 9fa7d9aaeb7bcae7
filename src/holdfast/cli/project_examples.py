"""What ``holdfast init`` can write: the small shop, and the examples, each with the first call once it is deployed."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct


class Start(Struct, frozen=True):
    """What to send to the function first, and the command that shows what came of it."""

    event: dict[str, Any]
    look: str


def _call(actor: str, key: str, method: str, *args: Any) -> Start:
    event = {"holdfast": "call", "actor": actor, "key": key, "method": method, "args": list(args)}
    return Start(event, f"actor show {actor} {key}")


SHOP: Final = Start(
    {"holdfast": "start", "workflow": "checkout", "id": "order-1", "input": ["lamp", "visa", 3950]},
    "show checkout order-1",
)

EXAMPLES: Final = {
    "circuit_breaker": _call("Breaker", "bank", "admit"),
    "counter": _call("Counter", "clicks", "add", 5),
    "distributed_cron": _call("Cron", "report", "schedule", 60_000),
    "leaderboard": _call("Leaderboard", "chess", "submit", "ann", 10),
    "order_processing": _call("Stock", "lamp", "add", 10),
    "rate_limiter": _call("RateLimiter", "ann", "acquire"),
}
"""The examples by their names."""
