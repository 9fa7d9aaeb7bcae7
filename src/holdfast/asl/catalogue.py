"""The machines that there are: those that the app declares in code, before those that requests have created.

A declared machine is changed where it is declared, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.asl.about import declared_role
from holdfast.asl.arns import Account
from holdfast.asl.runners import DeclaredMachine, Runner
from holdfast.asl.served import served_by
from holdfast.asl.stored.records import Revision, StoredMachine
from holdfast.asl.stored.shelf import Shelf
from holdfast.asl.stored.texts import digest_of
from holdfast.errors import HoldfastError
from holdfast.registrations import SERVED

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Declares


class DeclaredInCode(HoldfastError):
    """A machine that the app declares is not changed by requests."""

    code = "declared_in_code"


class Catalogue(Shelf):
    """The machines that an app declares, and what its home keeps."""

    __slots__ = ("_account", "_app")

    def __init__(self, app: Declares, account: Account) -> None:
        super().__init__(app.runtime)
        self._app = app
        self._account = account

    def declared(self, name: str) -> DeclaredMachine | None:
        """The machine that the app declares under this name."""
        found: DeclaredMachine | None = None if name == SERVED else self._app.registry.machines.get(name)
        return found

    def declared_machines(self) -> list[StoredMachine]:
        """The machines that the app declares, as records, in the order of their names. One with ``:`` has no ARN."""
        names = sorted(name for name in self._app.registry.machines if name != SERVED and ":" not in name)
        return [self._record(machine) for name in names if (machine := self.declared(name)) is not None]

    def runner(self, name: str) -> Runner | None:
        """What runs the machine of this name; ``None`` if requests have created it, and the app runs no such ones."""
        machines = self.declared(name) or served_by(self._app)
        return None if machines is None else Runner(machines)

    def refuse_declared(self, name: str) -> None:
        """Raise ``DeclaredInCode`` for the name of a machine that the app declares."""
        if self.declared(name) is not None:
            raise DeclaredInCode(
                f"State machine {name!r} is declared in the code of the app, and requests do not change it: change "
                "app.state_machine(...) there and deploy it"
            )

    async def machine(self, name: str) -> StoredMachine | None:
        """The machine of this name."""
        declared = self.declared(name)
        return await super().machine(name) if declared is None else self._record(declared)

    async def add_machine(self, machine: StoredMachine) -> StoredMachine | None:
        """See ``Shelf``. Raises ``DeclaredInCode``."""
        self.refuse_declared(machine.name)
        return await super().add_machine(machine)

    async def change_machine(self, name: str, change: Callable[[StoredMachine], StoredMachine]) -> StoredMachine:
        """See ``Shelf``. Raises ``DeclaredInCode``."""
        self.refuse_declared(name)
        return await super().change_machine(name, change)

    async def remove_machine(self, name: str) -> None:
        """See ``Shelf``. Raises ``DeclaredInCode``."""
        self.refuse_declared(name)
        await super().remove_machine(name)

    async def definition(self, digest: str) -> str:
        """The text of a definition that is declared, or was kept. Raises ``NotFound``."""
        texts = (each.machine.text for name, each in self._app.registry.machines.items() if name != SERVED)
        found = next((text for text in texts if digest_of(text) == digest), None)
        return await super().definition(digest) if found is None else found

    def _record(self, machine: DeclaredMachine) -> StoredMachine:
        """A declared machine as the home would keep it. No home knows since when it is declared."""
        role = declared_role(self._account, machine.name)
        revision = Revision(digest=digest_of(machine.machine.text), role_arn=role, at=0)
        return StoredMachine(name=machine.name, type=machine.type, revision=revision, created_at=0)
