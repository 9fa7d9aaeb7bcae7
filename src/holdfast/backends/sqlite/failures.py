"""Errors of SQLite as errors of Holdfast."""

from __future__ import annotations

import apsw

from holdfast.errors import HoldfastError, InvalidInput, StoreUnavailable, StoreUnusable


def explained(error: Exception, path: str) -> HoldfastError:
    """``error`` as an error of our tree that says what happened and what to do (https://sqlite.org/rescode.html)."""
    if isinstance(error, HoldfastError):
        return error
    told = _explained(error, path)
    told.__cause__ = error
    return told


def commit_failed(error: Exception, path: str) -> HoldfastError:
    """Why a whole transaction failed. A constraint is then not due to one caller's input."""
    told = explained(error, path)
    if isinstance(told, InvalidInput):
        return StoreUnavailable(f"{path} could not commit: {error}. Nothing of this write was applied")
    return told


def _explained(error: Exception, path: str) -> HoldfastError:
    match error:
        case apsw.FullError():
            return StoreUnavailable(
                f"the disk (or its quota) that holds {path} is full. Nothing of this write was applied; free some"
                " space: workers keep their work and continue by themselves"
            )
        case apsw.NotADBError():
            return StoreUnusable(f"{path} is not a SQLite database. Choose another path, or restore the file")
        case apsw.CorruptError():
            return StoreUnusable(f"{path} is damaged ({error}). Restore it from a backup; `holdfast doctor` says more")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreUnusable(
                f"{path} cannot be written ({error}). The file and the folder it is in must be writable: SQLite keeps"
                " its -wal and -shm files next to it"
            )
        case apsw.SQLError():
            return StoreUnusable(
                f"{path} does not have the tables of this version of Holdfast ({error}). They were changed:"
                f" restore it from a backup"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailable(
                f"{path} stayed locked by another process. Nothing of this write was applied; look for a process that"
                " is stopped in a transaction, or for a long one in a tool such as `sqlite3`"
            )
        case UnicodeError() | OverflowError() | TypeError() | ValueError():
            return InvalidInput(f"a value cannot be stored: {error}")
        case apsw.ConstraintError() | apsw.TooBigError() | apsw.MismatchError():
            return InvalidInput(f"a value cannot be stored: {error}")
        case _:
            return StoreUnavailable(f"{path} failed with {type(error).__name__}: {error}")
