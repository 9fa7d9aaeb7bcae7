"""What is deployed: one app, made of the six examples as they are and of the checkout."""

from __future__ import annotations

from examples import circuit_breaker, counter, distributed_cron, leaderboard, order_processing, rate_limiter
from examples.on_aws import checkout

import holdfast as hf

TOKEN_VARIABLE = "ON_AWS_TOKEN"  # noqa: S105 - the name of the variable with the token of who may call over HTTP

app = hf.App(
    "on-aws",
    limits=hf.Limits(lease_ms=6_000),  # how soon others may take over from an environment that has died
    parts=(
        checkout.app,
        circuit_breaker.app,
        counter.app,
        distributed_cron.app,
        leaderboard.app,
        order_processing.app,
        rate_limiter.app,
    ),
)
