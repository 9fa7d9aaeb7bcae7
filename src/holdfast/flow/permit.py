"""The permission for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from holdfast.flow.borrowing import Moment
    from holdfast.flow.tokens import Tokens


class Gives(Protocol):
    """What a process has of one key of a limit, as its permits see it."""

    tokens: Tokens

    def lasts(self, loan: int) -> bool:
        """Whether calls may begin by the loan of this number."""
        ...

    def begun(self, permit: Permit) -> None:
        """The call of a permit begins."""
        ...

    def ended(self, permit: Permit) -> None:
        """The call of a permit has ended, or does not begin."""
        ...


class Permit:
    """The permission for one call. It counts from when it is given until ``end``.

    It can only be begun while the loan that it is from lasts, and its token may be used.
    """

    __slots__ = ("_pool", "is_begun", "is_over", "loan", "token")

    def __init__(self, pool: Gives, loan: int, token: Moment | None) -> None:
        self._pool = pool
        self.token = token
        self.loan = loan
        self.is_begun = self.is_over = False

    @property
    def is_valid(self) -> bool:
        """Whether the call may begin now."""
        pool = self._pool
        return not self.is_over and pool.lasts(self.loan) and (self.token is None or pool.tokens.is_open(self.token))

    def begin(self) -> None:
        """The call begins. The caller has just seen that it is valid."""
        self.is_begun = True
        self._pool.begun(self)

    def end(self) -> None:
        """The call has ended, or does not begin."""
        if not self.is_over:
            self.is_over = True
            self._pool.ended(self)
