"""The bare loop writes what Holdfast writes, and as often. Nothing here judges a time."""

from __future__ import annotations

from pathlib import Path

import apsw
from benchmarks import bare


def read(path: Path, statement: str) -> list[tuple[object, ...]]:
    file = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return file.execute(statement).fetchall()
    finally:
        file.close()


async def test_the_same_bytes_of_one_step_workflows(tmp_path: Path) -> None:
    assert await bare.one_steps(str(tmp_path), lanes=4, count=10) > 0
    (ours,) = read(tmp_path / "bench.db", "SELECT status, length(body) FROM holdfast_heads WHERE kind = 'wf#'")
    there = read(tmp_path / "bare.db", "SELECT status, length(body) FROM holdfast_heads")
    assert there == [ours] * 10


async def test_the_same_bytes_of_steps(tmp_path: Path) -> None:
    assert await bare.steps(str(tmp_path), count=5) > 0
    ours = read(tmp_path / "bench.db", "SELECT body FROM holdfast_entries WHERE sort = 'j#000000#0000000001'")
    assert read(tmp_path / "bare.db", "SELECT DISTINCT body FROM holdfast_entries") == ours
    assert read(tmp_path / "bare.db", "SELECT count(*) FROM holdfast_entries") == [(5,)]


async def test_a_commit_for_each_batch(tmp_path: Path, monkeypatch) -> None:
    commits: list[int] = []
    commit = bare._commit
    monkeypatch.setattr(
        bare, "_commit", lambda store, text, rows: (commits.append(len(rows)), commit(store, text, rows))
    )
    await bare.one_steps(str(tmp_path), lanes=4, count=10)
    assert commits == [4, 4, 4, 4, 2, 2]


async def test_the_rows_of_starts_children_steps_actors_queues_timers_and_streams(tmp_path: Path) -> None:
    counted = "SELECT (SELECT count(*) FROM holdfast_heads), (SELECT count(*) FROM holdfast_entries)"

    def folder(name: str) -> str:
        (tmp_path / name).mkdir()
        return str(tmp_path / name)

    assert await bare.starts(folder("starts"), lanes=4, count=10) > 0
    assert await bare.children(folder("children"), count=10) > 0
    assert await bare.parallel(folder("parallel"), count=10) > 0
    assert bare.calls(folder("calls"), b"state", lanes=4, keys=3, count=10) > 0
    assert min(bare.sends(folder("sends"), b"state", keys=3, count=10)) > 0
    assert await bare.worked_off(folder("worked off"), limit=4, count=10) > 0
    assert await bare.woken(folder("woken"), count=10) > 0
    assert bare.appends(folder("appends"), b"event", writers=4, count=10) > 0
    found = {each.name: read(each / "bare.db", counted)[0] for each in tmp_path.iterdir()}
    assert found["starts"] == found["children"] == found["worked off"] == found["woken"] == (10, 0)
    assert found["appends"] == (4, 10)
    for name in ("worked off", "woken"):
        ended = "SELECT DISTINCT status, revision, owner FROM holdfast_heads"
        assert read(tmp_path / name / "bare.db", ended) == [("COMPLETED", 3, None)]
    (ours,) = read(tmp_path / "parallel" / "bench.db", "SELECT count(*) FROM holdfast_entries WHERE sort LIKE 'j#%'")
    assert found["parallel"] == (1, ours[0])
    assert (found["calls"], found["sends"]) == ((3, 0), (3, 0)), "messages that are applied are gone"
