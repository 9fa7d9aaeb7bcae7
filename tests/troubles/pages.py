"""A person at the dashboard: from the overview by links alone."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qs, urljoin, urlsplit

from tests.dashboard.conftest import ORIGIN, Element, Person, tokens

import holdfast as hf

FIRST: Final = f"{ORIGIN}/dashboard/overview"


def clicked(home: str, *labels: str) -> str:
    """What the page says to which these links lead, one after the other: the label of a link, or the workflow and id
    of an execution.
    """
    return asyncio.run(_walk(home, labels))


async def _walk(home: str, labels: tuple[str, ...]) -> str:
    async with hf.App("dashboard", home=home) as app:
        person = Person(app, authenticate=tokens())
        await person.log_in()
        here = FIRST
        page = await person.get(_path(here))
        for label in labels:
            links = [each for each in page.page.all("a") if _leads_to(each, label)]
            assert links, f"no link leads to {label!r} from {here}"
            here = urljoin(here, links[0].attributes["href"])
            page = await person.get(_path(here))
        assert page.status == 200, page.text
        return " ".join(page.main.text.split())


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _leads_to(link: Element, label: str) -> bool:
    named = parse_qs(urlsplit(link.attributes["href"]).query)
    return link.text.strip() == label or [named.get("workflow"), named.get("id")] == [[each] for each in label.split()]
