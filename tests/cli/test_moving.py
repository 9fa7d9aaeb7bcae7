"""``holdfast export`` and ``holdfast import``."""

from __future__ import annotations

import errno
import json
import sys
from contextlib import closing

import apsw
import pytest


@pytest.fixture
def started(shop):
    shop.json("start", "approval", "7", "--id", "a")
    return shop


def test_a_home_moves_into_a_file_and_into_another_home(started):
    moved = started.json("export", "--to", "shop.jsonl")
    assert moved == {
        "home": "sqlite:///shop.db",
        "file": "shop.jsonl",
        "counts": {"partitions": 1, "items": moved["counts"]["items"], "blobs": 0},
        "left_behind": [],
    }
    result = started.invoke("import", "--home", "sqlite:///new.db", "--from", "shop.jsonl")
    assert result.exit_code == 0
    assert result.stdout == f"imported {moved['counts']['items']} items of 1 partitions, and 0 blobs\n"
    assert started.json("ls", "--home", "sqlite:///new.db")["executions"][0]["id"] == "a"


def test_what_is_left_behind_is_named_and_the_status_says_so(started):
    with closing(apsw.Connection(str(started.path("shop.db")))) as connection:
        connection.execute("CREATE TABLE orders (id)")
    result = started.invoke("export", "--to", "shop.jsonl")
    assert result.exit_code == 1
    assert result.stdout.endswith("left behind: the table 'orders', which is yours\n")


def test_a_home_in_use_is_not_exported(started, worker):
    assert "Stop every worker and client" in started.refusal("export", "--to", "shop.jsonl")["message"]
    assert not started.path("shop.jsonl").exists()


def test_exporting_does_not_create_a_home(shop):
    assert "no database" in shop.refusal("export", "--to", "shop.jsonl")["message"]
    assert not shop.path("shop.db").exists()


def test_an_import_needs_an_empty_home(started):
    started.json("export", "--to", "shop.jsonl")
    assert started.json("import", "--from", "shop.jsonl")["counts"]["partitions"] == 1, "it is all there already"
    started.json("start", "approval", "8", "--id", "b")
    assert "is not empty" in started.refusal("import", "--from", "shop.jsonl")["message"]


def test_nothing_is_imported_into_the_memory_of_a_command(started):
    started.json("export", "--to", "shop.jsonl")
    refused = started.refusal("import", "--home", "memory://", "--from", "shop.jsonl")
    assert "memory of one process" in refused["message"]


def test_what_is_left_behind_is_named_and_fails(started):
    started.json("start", "checkout", json.dumps(["x" * 70_000]), "--id", "large")
    connection = apsw.Connection(str(started.path("shop.db")))
    connection.execute("DELETE FROM holdfast_blob_pieces")
    connection.close()
    result = started.invoke("export", "--to", "shop.jsonl")
    assert result.exit_code == 1
    assert "left behind: blob " in result.stdout
    assert started.path("shop.jsonl").exists()


@pytest.mark.parametrize("place", ["nowhere/shop.jsonl", "shop.py/shop.jsonl", f"{'x' * 300}.jsonl"])
def test_a_file_that_cannot_be_made_is_an_error(started, place):
    refused = started.refusal("export", "--to", place)
    assert refused["code"] == "invalid_input"
    assert f"{place} cannot be written: " in refused["message"]
    assert started.json("export", "--to", "shop.jsonl")["counts"]["partitions"] == 1


def test_a_file_for_which_there_is_no_room_is_an_error(started, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.moving.writing.os.fsync", full)
        told = started.refusal("export", "--to", "shop.jsonl")["message"]
    assert "shop.jsonl cannot be written: No space left on device" in told
    assert not [each for each in started.folder.iterdir() if each.name.startswith("shop.jsonl")]


VAULT = '''
import hashlib
import hmac

import holdfast as hf


class Mask:
    """No cipher, but enough of one for a test."""

    def seal(self, data, place):
        return hmac.digest(b"key", place + data, "sha256") + bytes(each ^ 0x55 for each in data)

    def unseal(self, sealed, place):
        data = bytes(each ^ 0x55 for each in sealed[32:])
        if not hmac.compare_digest(sealed[:32], hmac.digest(b"key", place + data, "sha256")):
            raise ValueError("another place")
        return data


app = hf.App("shop", home="sqlite:///shop.db", seal=hf.SealedOnly(Mask()))


@app.workflow
async def approval(cents: int) -> str:
    return await hf.signal("decision", str)
'''


@pytest.fixture
def vault(started, monkeypatch):
    """The same home, whose app has a seal now."""
    started.path("vault.py").write_text(VAULT)
    monkeypatch.delitem(sys.modules, "vault", raising=False)
    return started


def answered(shop, *arguments):
    result = shop.invoke(*arguments, "--json", app="vault:app")
    return result.exit_code, json.loads(result.stdout or result.stderr)


def test_a_home_is_sealed_and_moves_in_a_sealed_file(vault):
    status, refusal = answered(vault, "show", "approval", "a")
    assert (status, "holdfast seal" in refusal["message"]) == (1, True)
    status, sealed = answered(vault, "seal")
    assert (status, sealed["left_behind"], sealed["home"]) == (0, [], "sqlite:///shop.db")
    assert sealed["counts"]["items"] > 0
    assert answered(vault, "export", "--to", "shop.jsonl")[0] == 0
    assert "approval" not in vault.path("shop.jsonl").read_text()
    assert "-a MODULE:APP" in vault.refusal("import", "--home", "sqlite:///new.db", "--from", "shop.jsonl")["message"]
    status, _ = answered(vault, "import", "--home", "sqlite:///new.db", "--from", "shop.jsonl")
    assert status == 0
    status, examined = answered(vault, "doctor", "--home", "sqlite:///new.db")
    assert status == 0
    assert not [finding for finding in examined["findings"] if finding["level"] == "fail"]


def test_an_app_without_a_seal_seals_nothing(started):
    assert "has no seal" in started.refusal("seal")["message"]


def test_a_home_in_use_is_not_sealed(vault, worker):
    assert "Stop every worker" in answered(vault, "seal")[1]["message"]
