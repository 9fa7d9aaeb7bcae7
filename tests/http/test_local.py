"""The API of a private database on loopback: whoever can read the file beside it is let in, and nobody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.http.conftest import Connection
from tests.strangers import given_away

import holdfast as hf
from holdfast.errors import ConfigurationError
from holdfast.token_file import HEADER, token_file, token_of_database


@pytest.fixture
def app(tmp_path):
    app = hf.App("shop", home=f"sqlite:///{tmp_path}/shop.db")

    @app.workflow
    async def checkout(card: str) -> str:
        return card

    return app


async def status_with(app: hf.App, token: str | None, path: str = "/v1/workflows") -> int:
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    served = await Connection("GET", path, headers=headers).arrives().serve(app.asgi())
    return served.status


async def test_another_user_of_the_machine_is_not_let_in(app, tmp_path):
    async with app:
        assert await status_with(app, None) == 401
        assert await status_with(app, "x" * 48) == 401
        assert await status_with(app, "") == 401
        assert await status_with(app, token_of_database(str(tmp_path / "shop.db"))) == 200
        assert await status_with(app, None, "/v1/health") == 200


async def test_a_token_does_not_let_a_web_page_or_another_machine_in(app, tmp_path):
    async with app:
        token = token_of_database(str(tmp_path / "shop.db")).encode()
        headers = [(b"authorization", b"Bearer " + token)]
        page = Connection("GET", "/v1/workflows", headers=[*headers, (b"origin", b"https://evil.example")])
        assert (await page.arrives().serve(app.asgi())).status == 403
        afar = Connection("GET", "/v1/workflows", headers=headers, client=("10.0.0.7", 5))
        assert (await afar.arrives().serve(app.asgi())).status == 401


async def test_a_server_that_begins_has_the_token_ready(app, tmp_path):
    served = app.asgi()
    life = Connection(type="lifespan")
    life.arriving.put_nowait({"type": "lifespan.startup"})
    life.arriving.put_nowait({"type": "lifespan.shutdown"})
    await life.serve(served)
    path = token_file(str(tmp_path / "shop.db"))
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert text.startswith(HEADER) and text.endswith("\n")
    assert await _stays(path, text)


async def _stays(path: Path, text: str) -> bool:
    return token_of_database(str(path).removesuffix("-token")) == text.removeprefix(HEADER).strip()


async def test_removing_the_file_makes_the_token_void(app, tmp_path):
    async with app:
        old = token_of_database(str(tmp_path / "shop.db"))
        token_file(str(tmp_path / "shop.db")).unlink()
        assert await status_with(app, old) == 401
        assert await status_with(app, token_of_database(str(tmp_path / "shop.db"))) == 200


@pytest.mark.parametrize("mask", [0o000, 0o777])
def test_the_token_is_its_owners_alone_whatever_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        token = token_of_database(str(tmp_path / "shop.db"))
    finally:
        os.umask(before)
    assert (tmp_path / "shop.db-token").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["shop.db-token"]
    assert token not in "".join(each.name for each in tmp_path.iterdir())


SPOILED = {
    "another user's": ("belongs to the user", given_away),
    "written by others": ("written by other users", lambda path, _: path.chmod(0o622)),
    "read by others": ("others can read it", lambda path, _: path.chmod(0o640)),
    "a link": ("symbolic link", lambda path, _: path.rename(f"{path}2") and path.symlink_to(f"{path}2")),
    "short": ("holds no token", lambda path, _: path.write_text(f"{HEADER}guessed\n")),
    "empty": ("holds no token", lambda path, _: path.write_text("")),
    "a folder": ("cannot be read", lambda path, _: (path.unlink(), path.mkdir(0o700))),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_token_that_another_user_may_know_is_refused_by_name(tmp_path, monkeypatch, how):
    path = tmp_path / "shop.db-token"
    token_of_database(str(tmp_path / "shop.db"))
    complaint, spoil = SPOILED[how]
    spoil(path, monkeypatch)
    with pytest.raises(ConfigurationError, match=complaint) as raised:
        token_of_database(str(tmp_path / "shop.db"))
    assert str(path) in str(raised.value)


async def test_a_server_does_not_begin_with_a_token_that_another_user_may_know(app, tmp_path, monkeypatch):
    path = token_file(str(tmp_path / "shop.db"))
    path.write_text(f"{HEADER}{'a' * 48}\n")
    path.chmod(0o666)
    life = Connection(type="lifespan")
    life.arriving.put_nowait({"type": "lifespan.startup"})
    with pytest.raises(ConfigurationError, match="chmod go-w"):
        await life.serve(app.asgi())
    assert life.sent[0]["type"] == "lifespan.startup.failed"


def test_where_there_are_no_links_a_token_is_made_too(tmp_path, monkeypatch):
    def refused(*_: object, **_options: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("holdfast.token_file.os.link", refused)
    assert token_of_database(str(tmp_path / "shop.db")) == token_of_database(str(tmp_path / "shop.db"))
