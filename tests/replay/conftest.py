"""What tests of the kernel share: bodies that are run by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.replay.test_activation import Bench


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    """Makes benches, and has them leave memory at the end."""
    benches = []

    def make(*args: object, **options: object) -> Bench:
        benches.append(Bench(*args, **options))  # type: ignore[arg-type]  # those of a bench
        return benches[-1]

    yield make
    for each in benches:
        each.close()
