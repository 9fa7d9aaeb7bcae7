"""A token bucket per client, shared by all processes, that survives them.

Shows an actor around plain, pure domain code. Refills are computed from the time that has passed, so an idle bucket
costs nothing: no timer, no write. All numbers are whole, so there is no rounding at the edge: at exactly zero tokens it
refuses, and exactly when it says, it allows again.

    python examples/rate_limiter.py
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import holdfast as hf

# ── The domain: plain code, no Holdfast ─────────────────────────────────────────────────────────────────────────────

TOKEN = 86_400_000
"""Parts of a token: as many as a day has milliseconds. At n tokens a day, each millisecond refills n parts."""

PER_DAY = {"second": 86_400, "minute": 1_440, "hour": 24, "day": 1}


@dataclass(frozen=True)
class Limit:
    """So many tokens come in per ``second``, ``minute``, ``hour`` or ``day``; at most ``burst`` are saved up."""

    tokens: int
    per: str
    burst: int

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.burst < 1 or self.per not in PER_DAY:
            raise ValueError(f"{self} limits nothing, or everything")

    @property
    def parts_per_ms(self) -> int:
        return self.tokens * PER_DAY[self.per]


@dataclass(frozen=True)
class Bucket:
    """How full it was at a time. ``parts`` are parts of tokens, ``at_ms`` milliseconds since 1970."""

    parts: int
    at_ms: int

    def at(self, now_ms: int, limit: Limit) -> Bucket:
        """The bucket as it is now. A clock that went back refills nothing, and takes nothing away."""
        passed_ms = max(0, now_ms - self.at_ms)
        parts = min(self.parts + passed_ms * limit.parts_per_ms, limit.burst * TOKEN)
        return Bucket(parts, self.at_ms + passed_ms)


@dataclass(frozen=True)
class Decision:
    """Whether to go ahead; how many whole tokens are left; and, if refused, how long to wait until there are enough."""

    allowed: bool
    left: int
    retry_after: timedelta = timedelta(0)


def take(bucket: Bucket, tokens: int, limit: Limit) -> tuple[Bucket, Decision]:
    """Take tokens out if there are enough. Raises ``ValueError`` for a number that no waiting would bring."""
    if not 1 <= tokens <= limit.burst:
        raise ValueError(f"{tokens} tokens can never be had at once: the bucket holds {limit.burst}")
    missing = tokens * TOKEN - bucket.parts
    if missing <= 0:
        return Bucket(-missing, bucket.at_ms), Decision(allowed=True, left=-missing // TOKEN)
    wait_ms = -(-missing // limit.parts_per_ms)  # rounded up: never too early
    return bucket, Decision(allowed=False, left=bucket.parts // TOKEN, retry_after=timedelta(milliseconds=wait_ms))


# ── The actor: one bucket per key ───────────────────────────────────────────────────────────────────────────────────

app = hf.App("limits")


class RateLimiter(hf.Actor, app=app):
    """Full when it is first used. For other limits, inherit and set ``limit``; changing a limit keeps the buckets."""

    limit: ClassVar[Limit] = Limit(tokens=10, per="second", burst=5)

    bucket: Bucket | None = None

    async def acquire(self, tokens: int = 1) -> Decision:
        """Take tokens, or hear how long to wait. A refusal changes nothing, and so writes nothing."""
        bucket, decision = take(self._now(), tokens, self.limit)
        if decision.allowed:
            self.bucket = bucket
        return decision

    @hf.read
    async def left(self) -> int:
        """How many whole tokens there are."""
        return self._now().parts // TOKEN

    def _now(self) -> Bucket:
        now_ms = (hf.now() - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
        bucket = self.bucket or Bucket(self.limit.burst * TOKEN, now_ms)
        return bucket.at(now_ms, self.limit)


# ── See it work ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def story() -> None:
    ann = RateLimiter.at("ann")
    began = asyncio.get_running_loop().time()
    decisions = await asyncio.gather(*(ann.acquire() for _ in range(8)))
    allowed = sum(each.allowed for each in decisions)
    print(f"ann asks 8 times at once: {allowed} allowed")
    assert allowed >= RateLimiter.limit.burst

    waited = 0
    while not (decision := await ann.acquire()).allowed:
        waited += 1
        print(f"refused: retry in {decision.retry_after / timedelta(milliseconds=1):.0f} ms")
        await asyncio.sleep(decision.retry_after.total_seconds())
    assert waited <= 1, "it said when to retry, and then refused again"

    assert (await RateLimiter.at("bob").acquire()).allowed
    print("bob has a bucket of his own")

    retried = [await RateLimiter.at("eve", request_id="r-1").acquire(2) for _ in range(3)]
    print(f"a request that is sent three times costs its tokens once: {retried[0].left} left each time")
    assert {each.left for each in retried} == {3}

    granted = allowed + 1
    while asyncio.get_running_loop().time() - began < 1:
        granted += (await ann.acquire()).allowed
        await asyncio.sleep(0.01)
    seconds = asyncio.get_running_loop().time() - began
    print(f"hammered for {seconds:.1f} s, ann got {granted} tokens: the burst of 5, and 10 a second")
    assert granted <= 5 + 10 * seconds + 1


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app.home_url = f"sqlite:///{folder}/limits.db"
        app.run(story())


if __name__ == "__main__":
    main()
