"""One request of a known caller: what a page reads with, and what it may show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from holdfast.commands import IN_HOME, Context
from holdfast.commands.right import Right
from holdfast.coordination.census import reads_all
from holdfast.coordination.salt import salt_of
from holdfast.dashboard.links import link
from holdfast.dashboard.navigation import ADDRESSES, Address
from holdfast.http.api import Query
from holdfast.http.authentication import check_right
from holdfast.http.cursors import Cursors
from holdfast.http.problems import Problem, told_error
from holdfast.texts import masked

if TYPE_CHECKING:
    from holdfast.commands import Command
    from holdfast.dashboard.forms import Form
    from holdfast.dashboard.sessions import Session
    from holdfast.http.api import Served
    from holdfast.http.authentication import Caller
    from holdfast.http.messages import Request

T = TypeVar("T")

PAGE_ROWS: Final = 50
YES: Final = "true"
MOST_READ: Final = 2_000
"""How many stored items a page looks through for its rows. It says so if there may be more, and goes on by a link."""


class Visit(Struct, frozen=True, eq=False, kw_only=True):
    """One request of a known caller. ``root`` is the path of the dashboard as browsers see it."""

    app: Served
    request: Request
    caller: Caller
    session: Session
    begins_session: bool
    form_token: str
    root: str
    title: str
    note: str = ""
    form: Form | None = None
    polls: bool = False
    """Whether pages ask for news by themselves, because the server sends none."""
    is_fragment: bool = False
    """Whether only the content is wanted, without the frame around it."""

    @property
    def now_ms(self) -> int:
        """The present, in milliseconds."""
        return self.app.runtime().clock.now_ms()

    @property
    def tenant(self) -> str:
        """The prefix that the caller is confined to; empty for none."""
        return self.caller.tenant

    @property
    def may_inspect(self) -> bool:
        """Whether the caller may see payloads, tracebacks and the texts of errors."""
        return Right.INSPECT in self.caller.rights

    @property
    def rights_text(self) -> str:
        """The rights of the caller, for people."""
        return ", ".join(right for right in Right if right in self.caller.rights)

    @property
    def pages(self) -> list[tuple[str, str]]:
        """The pages in the frame that the caller may see: the address and the label of each."""
        return [(each.page, each.label) for each in ADDRESSES if each.label and self.may_open(each)]

    def may(self, right: Right | None) -> bool:
        """Whether the caller has this right."""
        return right is not None and right in self.caller.rights

    def may_open(self, address: Address) -> bool:
        """Whether the caller may see a page."""
        return self.may(address.right) and not (self.tenant and address.is_of_home)

    def check_whole_home(self) -> None:
        """Raise ``Problem`` if the caller is confined to a tenant: what is asked for is about the whole home."""
        if self.tenant:
            confined = f"{self.caller.name} is confined to ids and keys that begin with {self.tenant!r}"
            raise Problem(403, "forbidden", f"{confined}, and this page is about the whole home")

    def check_right(self, right: Right) -> None:
        """Raise ``Problem`` unless the caller has this right."""
        check_right(self.caller, right)

    def query(self, *known: str) -> Query:
        """The parameters of the query. Raises ``InvalidInput`` for any that are not ``known``."""
        return Query(self.request.query, known)

    async def read(self, command: Command[T]) -> T:
        """The answer of a command that only reads. It finds whatever name the home holds."""
        return await command.perform(Context(self.app, IN_HOME))

    async def must_ask(self, scan: str | None, *, has_index: bool = True) -> bool:
        """Whether a list would read all that the home holds, which is billed, and its address does not say ``scan``.
        ``has_index``: what it lists may have one.
        """
        home = self.app.runtime().home
        if scan == YES:
            return False
        if not has_index:
            return reads_all(home)
        return home.lists_by_scan is not None and await home.lists_by_scan()

    async def cursors(self) -> Cursors:
        """Seals and opens the cursors of this caller."""
        return Cursors(await salt_of(self.app.runtime().home), self.tenant)

    def link(self, page: str, /, **names: Any) -> str:
        """The address of a page."""
        return link(self.root, page, **names)

    def error_text(self, type: str, text: str) -> str:
        """An error of user code as this caller may see it: its text by the right to inspect, or if it is declared."""
        if self.may_inspect:
            return masked(f"{type.rpartition('.')[2]}: {text}" if text else type.rpartition(".")[2])
        return told_error(type, text, self.app.registry.errors)

    def error_line(self, line: str) -> str:
        """An error in one line as this caller may see it: only its type, without the right to inspect."""
        return masked(line) if self.may_inspect else line.partition(":")[0]
