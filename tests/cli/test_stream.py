"""``holdfast stream prune``: event streams without a new event go."""

from __future__ import annotations

import asyncio

import pytest
from tests.cli.conftest import load_twin

STREAMS = """


@dataclass
class Deposited:
    cents: int


accounts = app.streams(Deposited, name="accounts")
app.streams(int, name="readings")
"""


@pytest.fixture
def filled(shop):
    shop.path("shop.py").write_text(shop.path("shop.py").read_text() + STREAMS)
    twin = load_twin(shop.folder)

    async def fill():
        async with twin.app:
            for key in "ab":
                await twin.accounts.at(key).append(twin.Deposited(1))

    asyncio.run(fill())
    return shop


def test_old_streams_go_and_leave_a_row(filled):
    assert filled.json("stream", "prune", "--older-than", "1h")["streams"] == []
    told = filled.json("stream", "prune", "--older-than", "0s", "--dry-run")
    assert [each["key"] for each in told["streams"]] == [["a"], ["b"]] and told["deleted"] is False
    assert filled.json("stream", "prune", "--older-than", "0s", "--streams", "readings")["streams"] == []
    assert "2 streams were deleted" in filled.invoke("stream", "prune", "--older-than", "0s").output
    assert filled.json("stream", "prune", "--older-than", "0s")["streams"] == []
    assert {row["action"] for row in filled.json("audit")["changes"]} == {"stream prune"}


def test_what_is_not_declared_is_refused_by_name(filled):
    result = filled.invoke("stream", "prune", "--older-than", "1d", "--streams", "account")
    assert result.exit_code == 1 and "there are: accounts, readings" in result.output
