"""A browser without a network: it keeps cookies, follows redirects, and fills in the forms that pages have."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit

import pytest

import holdfast as hf

HOST = "127.0.0.1:8080"
ORIGIN = f"http://{HOST}"
TOKENS = {"ann": "a" * 32, "reader": "r" * 32, "acme": "c" * 32, "writer": "w" * 32, "operator": "o" * 32}
RIGHTS = {"reader": ["read"], "writer": ["read", "write"], "operator": ["read", "write", "control"]}
TENANTS = {"acme": "acme/"}
VOID = {"meta", "link", "input", "img", "br", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.children)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        found = []
        for each in self.children:
            if isinstance(each, Element):
                if tag in ("*", each.tag) and attributes.items() <= each.attributes.items():
                    found.append(each)
                found += each.all(tag, **attributes)
        return found


class Page(HTMLParser):
    """A page, parsed. Tags that do not close as they should are complained about."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root], [each.tag for each in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._open[-1].tag == tag == "option":
            self._open.pop()
        made = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag != "option" and self._open[-1].tag == "option":
            self._open.pop()
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each == name), None)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def page(self) -> Element:
        return Page(self.text).root

    @property
    def main(self) -> Element:
        return self.page.all("main")[0]


class Person:
    """A person with a browser, at a dashboard."""

    def __init__(self, app: hf.App, *, dashboard: hf.Dashboard | None = None, **options: Any) -> None:
        self.api = app.asgi(dashboard=dashboard or hf.Dashboard(), **options)
        self.cookies: dict[str, str] = {}
        self.scope: dict[str, Any] = {}
        self.host = HOST

    async def send(self, method: str, where: str, body: bytes = b"", **headers: str | None) -> Answer:
        parts = urlsplit(where)
        given: dict[str, str | None] = {"host": self.host}
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if method == "POST":
            given |= {"origin": f"http://{self.host}", "content-type": "application/x-www-form-urlencoded"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value is not None],
            "server": ("127.0.0.1", 8080),
            "client": ("127.0.0.1", 50000),
        } | self.scope
        arriving: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        arriving.put_nowait({"type": "http.request", "body": body, "more_body": False})
        sent: list[dict[str, Any]] = []

        async def keep(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.api(scope, arriving.get, keep)
        told = [(name.decode(), value.decode("latin-1")) for name, value in sent[0]["headers"]]
        self._keep_cookies(told)
        return Answer(sent[0]["status"], told, b"".join(each.get("body", b"") for each in sent[1:]))

    def _keep_cookies(self, headers: list[tuple[str, str]]) -> None:
        for name, value in headers:
            if name == "set-cookie":
                key, _, rest = value.partition("=")
                if "Max-Age=0" in rest:
                    self.cookies.pop(key, None)
                else:
                    self.cookies[key] = rest.partition(";")[0].strip('"')

    async def get(self, where: str, **headers: str | None) -> Answer:
        return await self.send("GET", where, **headers)

    async def post(self, where: str, fields: dict[str, Any] | list[tuple[str, str]], **headers: str | None) -> Answer:
        return await self.send("POST", where, urlencode(fields, doseq=True).encode(), **headers)

    async def follow(self, answer: Answer) -> Answer:
        """The page that a redirect leads to."""
        assert answer.status == 303, (answer.status, answer.text)
        where = answer.header("location")
        assert where is not None
        return await self.get(where)

    async def log_in(self, name: str = "ann") -> Answer:
        answer = await self.post("/dashboard/login", {"token": TOKENS[name]})
        assert answer.status == 303, answer.text
        return answer

    async def act(self, page: Answer, action: str, *, form: int | None = None, **fields: Any) -> Answer:
        """Press the button of an action on a page."""
        forms = [each for each in page.page.all("form") if each.all("button", value=action)]
        assert forms, f"no form has a button for {action}"
        chosen = forms[form or 0]
        filled = [
            (each.attributes["name"], each.attributes.get("value", "")) for each in chosen.all("input", type="hidden")
        ]
        extra = [
            (name, each) for name, value in fields.items() for each in (value if isinstance(value, list) else [value])
        ]
        return await self.post(chosen.attributes["action"], [*filled, *extra, ("action", action)])

    async def confirm(self, page: Answer, **fields: str) -> Answer:
        """Say yes on the page that asks, with what it asks for."""
        form = next(each for each in page.page.all("form") if each.all("button", name="sure"))
        filled = [(each.attributes["name"], each.attributes["value"]) for each in form.all("input", type="hidden")]
        typed = {"sure": "yes"} | fields
        return await self.post(urljoin(ORIGIN, form.attributes["action"]), [*filled, *typed.items()])


def tokens() -> hf.BearerTokens:
    return hf.BearerTokens(TOKENS, rights=RIGHTS, tenants=TENANTS)


def at(workflow: str, id: str) -> str:
    return f"/dashboard/execution?{urlencode({'workflow': workflow, 'id': id})}"


def make_shop(home: str) -> hf.App:
    app = hf.App("shop", home=home)

    @app.step(retry=hf.Retry(max_attempts=1))
    async def charge(card: str) -> str:
        if card.startswith("bad"):
            raise KeyError(card)
        return f"payment by {card}"

    @app.workflow
    async def checkout(card: str) -> str:
        return await charge(card)

    @app.workflow
    async def approval(amount: int) -> str:
        return f"{await hf.signal('decision')}: {amount}"

    @app.workflow
    async def parcel() -> str:
        return await hf.callback(str)

    class Basket(hf.Actor, app=app, retry=hf.Retry(max_attempts=1)):
        items: dict[str, int] = hf.field(default_factory=dict)

        async def add(self, sku: str) -> int:
            if "bug" in sku:
                raise ZeroDivisionError(sku)
            self.items[sku] = self.items.get(sku, 0) + 1
            return self.items[sku]

    app.Basket = Basket  # type: ignore[attr-defined]  # for the tests

    return app


@pytest.fixture
def shop(tmp_path) -> hf.App:
    """A shop on a file of its own."""
    return make_shop(f"sqlite:///{tmp_path}/shop.db")


@pytest.fixture
def person(shop) -> Person:
    """A person who is not known yet, at a dashboard for callers with tokens."""
    return Person(shop, authenticate=tokens())


__all__ = ["ORIGIN", "TENANTS", "TOKENS", "Answer", "Page", "Person", "at", "make_shop", "quote", "tokens"]
