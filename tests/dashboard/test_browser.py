"""A person's way through the dashboard in a real Chromium: one server and one browser for all of it.

``HOLDFAST_SCREENSHOTS=docs/dashboard`` also writes the pictures that the page in docs/ shows, of an app in the empty
folder ``HOLDFAST_SCREENSHOTS_OF=/srv/shop``, whose path is in them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from tests.conftest import NOT_TESTED, SKIP_NOTHING
from tests.dashboard.browser import CHROMIUM, PATIENCE_SECONDS, Browser, Tab

pytestmark = pytest.mark.process

SHOP = """
    import asyncio
    from pathlib import Path
    from typing import Literal
    import holdfast as hf
    from msgspec import Struct

    app = hf.App("shop")

    @app.step(retry=hf.Retry(max_attempts=1))
    async def charge(card: str) -> str:
        if card == "declined" and not Path("mended").exists():
            raise ConnectionError("the bank does not answer")
        return f"payment by {card}"

    @app.step
    async def pack(sku: str) -> str:
        return sku

    @app.workflow
    async def checkout(card: str) -> str:
        await asyncio.gather(pack("sku-9"), pack("sku-7"))
        return await charge(card)

    class Decision(Struct):
        approved: bool
        by: str
        how: Literal["by mail", "by phone"] = "by mail"
        amount: int | None = None

    @app.workflow
    async def approval(amount: int) -> str:
        given = await hf.signal("decision", Decision)
        return f"{given.approved} by {given.by}: {amount + (given.amount or 0)}"

    class Basket(hf.Actor, app=app, retry=hf.Retry(max_attempts=1)):
        items: list[str] = hf.field(default_factory=list)

        async def add(self, sku: str) -> int:
            if sku.startswith("bug") and not Path("mended").exists():
                raise ZeroDivisionError(sku)
            self.items.append(sku)
            return len(self.items)
"""


class Site:
    """``holdfast serve --dashboard``, and its API."""

    def __init__(self, folder: Path, said: dict[str, str]) -> None:
        self.folder = folder
        self.login = said["dashboard"]
        self.url = said["dashboard"].partition("/login")[0]
        self._at = urlsplit(said["url"])
        self._token = Path(said["token_file"]).read_text().split()[-1]

    def post(self, path: str, value: object = None) -> None:
        connection = HTTPConnection(str(self._at.hostname), self._at.port, timeout=PATIENCE_SECONDS)
        connection.request("POST", path, json.dumps(value), {"Authorization": f"Bearer {self._token}"})
        answer = connection.getresponse()
        assert answer.status < 300, answer.read()
        connection.close()

    def start(self, workflow: str, id: str, *args: object) -> None:
        self.post(f"/v1/workflows/{workflow}/{quote(id, safe='')}", list(args))


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    folder = Path(os.environ.get("HOLDFAST_SCREENSHOTS_OF", tmp_path))
    (folder / "shop.py").write_text(textwrap.dedent(SHOP))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    command = [sys.executable, "-m", "holdfast.cli", "serve", "-a", "shop:app", "--port", "0"]
    with subprocess.Popen(
        [*command, "--work", "--dashboard", "--json", "--log-level", "error"],
        cwd=folder,
        env=inherited | {"PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            yield Site(folder, json.loads(server.stdout.readline()))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE_SECONDS)


@pytest.fixture
def tab(site) -> Iterator[Tab]:
    if CHROMIUM is None:
        told = f"{NOT_TESTED}: there is no Chromium; on Debian: apt-get install chromium"
        (pytest.fail if os.environ.get(SKIP_NOTHING) else pytest.skip)(told)
    with Browser() as browser:
        tab = browser.tab()
        tab.emulate()
        tab.open(site.login)
        tab.click("button.primary")
        tab.until("!!document.querySelector('nav[aria-label=Pages]')")
        yield tab


def has(text: str) -> str:
    return f"document.body.innerText.includes({json.dumps(text)})"


def row(id: str) -> str:
    return f"!!document.querySelector('main a[title={json.dumps(id)}]')"


def shoot(tab: Tab, name: str) -> None:
    folder = os.environ.get("HOLDFAST_SCREENSHOTS")
    if folder is not None:
        Path(folder).mkdir(exist_ok=True)
        tab.screenshot(Path(folder) / f"{name}.png")


def executions_appear_without_a_reload(site, tab):
    tab.open(f"{site.url}/executions")
    tab.until(has("No executions yet"))
    tab.until("document.getElementById('live').textContent === 'live'")
    tab.js("window.isStillHere = true")
    site.start("checkout", "order-17", "visa")
    tab.until(row("order-17"))
    tab.until(has("completed"))
    site.start("checkout", "order-18", "declined")
    tab.until(has("ConnectionError: the bank does not answer"))
    assert tab.js("window.isStillHere"), "the page was changed in place"


def a_list_is_filtered_and_an_execution_is_opened(site, tab):
    tab.open(f"{site.url}/executions")
    tab.js("document.querySelector('select[name=status]').value = 'FAILED'")
    tab.click(".filters button")
    tab.until("location.search.includes('status=FAILED')")
    tab.until(row("order-18"))
    assert not tab.js(row("order-17"))
    shoot(tab, "executions")
    tab.click('main a[title="order-18"]')
    tab.until("document.querySelectorAll('.gantt rect').length >= 3")
    assert tab.js(has("the bank does not answer"))
    assert tab.js(has("raise ConnectionError"))
    shoot(tab, "execution")


def a_failed_execution_is_retried(site, tab):
    tab.open(f"{site.url}/execution?workflow=checkout&id=order-18")
    (site.folder / "mended").touch()
    tab.click('button[value="retry"]')
    tab.until(has("continues from what failed"))
    tab.until("document.querySelector('main .badge').textContent === 'completed'")
    (site.folder / "mended").unlink()


def a_signal_is_sent_by_a_form(site, tab):
    site.start("approval", "a/1", 500)
    tab.open(f"{site.url}/execution?workflow=approval&id=a%2F1")
    tab.until("document.querySelector('main .badge').textContent === 'suspended'")
    tab.click('a[href*="/signal?"]')
    tab.until("!!document.getElementById('v.by')")
    tab.click("[id='v.by']")
    tab.type("ann")
    tab.js("document.getElementById('v.amount').value = '7.5'")  # it is for whole numbers
    tab.click('button[value="signal"]')
    tab.until(has("amount: expected int"))
    assert tab.js("document.getElementById('v.by').value") == "ann", "what was typed is kept"
    shoot(tab, "signal")
    tab.js("document.getElementById('v.amount').value = '7'")
    tab.click("[id='v.approved']")
    tab.click('button[value="signal"]')
    tab.until(has("has the signal"))
    tab.until("document.querySelector('main .badge').textContent === 'completed'")
    assert tab.js(has("True by ann: 507"))


def what_a_person_does_stays_while_rows_come(site, tab):
    for n in range(3):
        site.post(f"/v1/actors/Basket/b{n}/add/send", [f"bug-{n}"])
    tab.open(f"{site.url}/letters")
    tab.until("document.querySelectorAll('tbody tr').length === 3")
    tab.until("document.getElementById('live').textContent === 'live'")
    second = tab.js("document.querySelectorAll('input[name=on]')[1].value")
    tab.click("tbody tr:nth-child(2) input[name=on]")
    tab.js("document.querySelector('.filters input').value = 'typed'")
    tab.js("document.querySelector('.filters input').focus()")
    first = tab.js("JSON.parse(document.querySelectorAll('input[name=on]')[0].value)[0]")
    site.post(f"/v1/dlq/{quote(first, safe='')}/redrive", {"args": ["tea"]})  # another person mends the first
    tab.until("document.querySelectorAll('tbody tr').length === 2")
    assert tab.js("[...document.querySelectorAll('input[name=on]:checked')].map((box) => box.value)") == [second]
    assert tab.js("document.activeElement.value") == "typed"
    (site.folder / "mended").touch()
    tab.click('button[value="dlq redrive"]')
    tab.until(has("is in its inbox again"))
    tab.until("document.querySelectorAll('tbody tr').length === 1")
    assert tab.js("document.querySelector('input[name=on]').value") != second


def a_menu_stays_itself_while_the_page_changes(site, tab):
    site.start("approval", "menu", 1)
    tab.open(f"{site.url}/execution?workflow=approval&id=menu")
    tab.until("document.querySelector('main .badge').textContent === 'suspended'")
    tab.until("document.getElementById('live').textContent === 'live'")
    tab.js("document.getElementById('fork-id').closest('details').open = true")
    tab.js("document.getElementById('fork-id').focus()")
    tab.type("typed")
    tab.js("window.before = document.querySelector('button[value=pause]')")
    for action, status in (("pause", "paused"), ("resume", "suspended"), ("terminate", "terminated")):
        site.post(f"/v1/workflows/approval/menu/{action}", {})
        tab.until(f"document.querySelector('main .badge').textContent === '{status}'")
        assert tab.js("document.activeElement.id") == "fork-id"
        assert tab.js("document.activeElement.value") == "typed"
        assert tab.js("[...document.querySelectorAll('details.more[open] summary')].map((e) => e.textContent)") == [
            "Fork…"
        ]
    assert tab.js("window.before.value") == "pause", "a button is never another one"


def a_second_click_is_none(site, tab):
    tab.open(f"{site.url}/executions?status=COMPLETED")
    tab.js(
        "window.sent = 0; addEventListener('submit', (event) => { "
        "if (!event.defaultPrevented) sent += 1; event.preventDefault(); })"
    )
    tab.js(
        "document.querySelector('button[value=pause]').click(); document.querySelector('button[value=pause]').click()"
    )
    assert tab.js("window.sent") == 1


def every_page_is_reached_by_the_keyboard_alone(site, tab):
    tab.open(f"{site.url}/overview")
    tab.press("Tab", 9)
    assert tab.js("document.activeElement.className") == "skip"
    seen = []
    for _ in range(12):
        tab.press("Tab", 9)
        seen.append(tab.js("document.activeElement.textContent.trim()"))
        assert tab.js("getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus is seen"
    assert seen[1:6] == ["Overview", "Executions", "Actors", "Dead letters", "Queues"]
    tab.js("document.querySelector('nav a[href$=\"/executions\"]').focus()")
    tab.press("Enter", 13, "\r")
    tab.until("location.pathname.endsWith('/executions')")
    tab.until("document.readyState === 'complete'")
    tab.press("/", 191, "/")
    tab.until("document.activeElement.name === 'workflow'")
    tab.type("approval")
    tab.press("Enter", 13, "\r")
    tab.until("location.search.includes('workflow=approval')")


CONTRAST = """
(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim());
    if (!text || !e.getClientRects().length || e.closest('svg')) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${e.tagName}.${e.className} ${e.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
  }
  return poor;
})()
"""

NAMELESS = """
[...document.querySelectorAll('button, a, input:not([type=hidden]), select, textarea, summary')]
  .filter((e) => !e.hidden && !(e.textContent.trim() || e.labels && e.labels.length || e.getAttribute('aria-label')))
  .map((e) => e.outerHTML)
"""


def text_is_read_in_both_schemes_and_every_control_has_a_name(site, tab):
    for scheme in ("light", "dark"):
        pages_are_read(site, tab, scheme)


def pages_are_read(site, tab, scheme):
    tab.emulate(scheme)
    one = "execution?workflow=checkout&id=order-18"
    signal = "signal?workflow=approval&id=a%2F1&name=decision"
    for page in (
        "overview",
        "executions",
        one,
        signal,
        "actors",
        "letters",
        "workers",
        "audit",
        "metrics",
        "schedules",
    ):
        tab.open(f"{site.url}/{page}")
        assert tab.js(CONTRAST) == [], page
        assert tab.js(NAMELESS) == [], page
        assert tab.js("document.documentElement.scrollWidth <= innerWidth"), f"{page} fits its width"
        assert tab.js("document.querySelectorAll('h1, main, header').length") == 3
    tab.emulate("light", 390, 844)
    for page in ("overview", "executions", one):
        tab.open(f"{site.url}/{page}")
        assert tab.js("document.documentElement.scrollWidth <= innerWidth"), f"{page} fits a phone"
    tab.emulate()


def the_pages_work_without_a_script(site, tab):
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        site.start("approval", "plain", 1)
        site.start("approval", "plainer", 1)
        tab.open(f"{site.url}/execution?workflow=approval&id=plain")
        tab.click('button[value="pause"]')
        tab.until(has("starts nothing new"))
        tab.js("document.querySelector('details.more').open = true")
        tab.click('button[value="cancel"]')
        tab.until(has("Leave it as it is"))
        tab.click('button[name="sure"]')
        tab.until(has("approval plain is asked to stop"))
        tab.open(f"{site.url}/executions")
        tab.click("tbody tr:nth-child(1) input[name=on]")
        tab.click("tbody tr:nth-child(2) input[name=on]")
        tab.click('button[value="resume"]')
        tab.until(has("of 2 done"))
    finally:
        tab.send("Emulation.setScriptExecutionDisabled", value=False)


def an_overview_tells_what_needs_care(site, tab):
    tab.open(f"{site.url}/overview")
    assert tab.js(has("Needs care"))
    shoot(tab, "overview")


def logging_out_ends_the_session(site, tab):
    tab.open(f"{site.url}/executions")
    tab.until("document.getElementById('live').textContent === 'live'")
    tab.click('form[action$="/logout"] button')
    tab.until(has("Log in"))
    tab.open(f"{site.url}/executions")
    tab.until(has("Log in"))


SCENARIO = (
    executions_appear_without_a_reload,
    a_list_is_filtered_and_an_execution_is_opened,
    a_failed_execution_is_retried,
    a_signal_is_sent_by_a_form,
    what_a_person_does_stays_while_rows_come,
    a_menu_stays_itself_while_the_page_changes,
    a_second_click_is_none,
    every_page_is_reached_by_the_keyboard_alone,
    text_is_read_in_both_schemes_and_every_control_has_a_name,
    the_pages_work_without_a_script,
    an_overview_tells_what_needs_care,
    logging_out_ends_the_session,
)

REFUSED = "network: Failed to load resource: the server responded with a status of 400 (Bad Request)"
"""What the browser says of a form that is refused."""


def test_a_person_uses_the_dashboard(site, tab):
    """One test, since each part begins where the one before ended, and all share one server and one browser."""
    for part in SCENARIO:
        part(site, tab)
        assert [each for each in tab.complaints() if not each.startswith(REFUSED) or "/act" not in each] == [], (
            part.__name__
        )
