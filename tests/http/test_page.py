"""The curl commands of docs/http.md, run through the ASGI application in this process, with the answers they show."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path

from tests.http.conftest import Connection

from holdfast.http.local import LocalCallers

PAGE = Path(__file__).parents[2] / "docs" / "http.md"
BLOCK = re.compile(r"^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"\$\(cat (\w+)\)")


def blocks(language):
    return [found["code"] for found in BLOCK.finditer(PAGE.read_text()) if found["language"] == language]


def curls():
    """Each command, and the line it shows below, if any."""
    lines = [line for code in blocks("sh") for line in code.splitlines()]
    for line, shown in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("$ curl "):
            yield line.removeprefix("$ "), "" if shown.startswith("$ ") else shown


def matches(shown, said):
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), said) is not None


async def perform(api, command):
    """Do what curl does for its options -X, -H and -d."""
    words = shlex.split(FILE.sub(lambda name: Path(name[1]).read_text(), command))[1:]
    method, headers, body, url = None, [], "", ""
    while words:
        match words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-d":
                body = words.pop(0)
            case "-H":
                header = words.pop(0)
                text = Path(header[1:]).read_text().strip() if header.startswith("@") else header
                name, _, value = text.partition(": ")
                headers.append((name.lower().encode(), value.encode()))
            case url:
                assert not url.startswith("-"), f"curl's option {url} is not known here"
    assert url.startswith("localhost:8080/")
    connection = Connection(method or ("POST" if body else "GET"), url.removeprefix("localhost:8080"), headers=headers)
    served = await connection.arrives(body.encode()).serve(api)
    return b"".join(each.get("body", b"") for each in served.sent).decode()


async def test_the_commands_of_the_page_get_the_answers_it_shows(tmp_path, monkeypatch, eventually):
    monkeypatch.chdir(tmp_path)
    Path("shop_of_the_page.py").write_text(blocks("python")[0])
    spec = importlib.util.spec_from_file_location("shop_of_the_page", "shop_of_the_page.py")
    shop = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, shop)
    spec.loader.exec_module(shop)
    count = 0
    async with shop.app.worker():
        LocalCallers(shop.app).prepare()  # as a server does when it starts
        for command, shown in curls():
            if "$(cat token)" in command:
                await eventually(lambda: Path("token").exists() and Path("token").read_text())
            said = await perform(shop.api, command)
            assert matches(shown, said), f"{command}\nshown: {shown}\nsaid:  {said}"
            count += 1
    assert count > 20


def test_a_page_that_lies_is_found_out():
    assert matches('{...,"result":1}', '{"id":"a","result":1}')
    assert not matches('{...,"result":1}', '{"id":"a","result":2}')
    assert not matches("", "{}")
