"""Failures as data: an error is recorded as text and plain values, and rebuilt without ever looking up a class by name
in the program (G2, G12).

A stored type name is only a key into the registry of classes that the app has named beforehand. Any other name is not
imported, searched for or evaluated; its failure becomes ``StepFailed``.
"""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

import holdfast
from holdfast import errors
from holdfast.codec.typed import Codec, codec_for
from holdfast.containment import origin_of
from holdfast.errors import ConfigurationError, DuplicateName, InvalidInput, StepFailed

MESSAGE_LIMIT_BYTES: Final = 16 * 1024
TYPE_LIMIT_BYTES: Final = 1024
VALUES_LIMIT_BYTES: Final = 16 * 1024
"""For the arguments of an error, and again for its attributes; larger ones are not kept."""
TRACEBACK_LIMIT_BYTES: Final = 4 * 1024
TRACEBACK_LIMIT_FRAMES: Final = 30
CAUSES_LIMIT_LEVELS: Final = 3
"""How many errors of a chain are kept, the outermost included."""

PARTS_LIMIT: Final = 5
"""How many errors of a group are recorded."""

NOTES_LIMIT: Final = 8
"""How many notes of an error (PEP 678) are kept: the first, because they are the nearest to its origin."""

RAISED_AT: Final = "It was raised at (most recent call last):"
"""How the note begins that an error made from a record has: its traceback was left where it was raised."""

_PACKAGE: Final = holdfast.__path__[0]
_FRAMES_LEFT_OUT: Final = tuple(f"{package.__path__[0]}/" for package in (asyncio, concurrent.futures))
_USERS_WITHIN: Final = tuple(f"{_PACKAGE}/{name}/" for name in ("chaos", "demo", "testing"))
"""Programs of ours that are written as users write theirs."""

_CUT: Final = "… (cut)"
_PLAIN: Final[Codec[Any]] = codec_for(Any)


class ErrorRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """An error as data. Small: messages are cut at 16 KB, tracebacks to their last 4 KB, chains at three errors.

    ``type`` is ``module.QualifiedName``. ``args`` are the arguments that make the error again, and
    ``attributes`` the attributes set on it, each only if plain JSON carries it exactly; else ``None``. ``parts`` are
    the first errors of an exception group. ``traceback`` has the frames of users' code. ``notes`` are those of PEP 678;
    an error that came out of a record before brings the traceback that it had there as one.
    """

    type: str
    message: str
    args: tuple[Any, ...] | None = None
    attributes: dict[str, Any] | None = None
    traceback: str = ""
    cause: ErrorRecord | None = None
    parts: tuple[ErrorRecord, ...] = ()
    notes: tuple[str, ...] = ()

    def lineage(self) -> Iterator[ErrorRecord]:
        """This error, its causes, and the errors it groups, each with its own."""
        yield self
        for other in (*self.parts, *(() if self.cause is None else (self.cause,))):
            yield from other.lineage()


def describe(error: BaseException) -> ErrorRecord:
    """The record of an error: never fails, whatever the error's own methods do.

    >>> record = describe(KeyError("sku-9"))
    >>> record.type, record.message, record.args
    ('builtins.KeyError', "'sku-9'", ('sku-9',))
    """
    return _describe(origin_of(error), CAUSES_LIMIT_LEVELS)


class ErrorRegistry:
    """The error classes that may come back from a record: builtins, Holdfast's own, and those the app registers.

    >>> registry = ErrorRegistry()
    >>> registry.rebuild(describe(KeyError("sku-9")))
    KeyError('sku-9')
    >>> registry.rebuild(ErrorRecord(type="os.system", message="rm"))
    StepFailed('os.system', 'rm')
    """

    def __init__(self) -> None:
        self._classes: dict[str, type[Exception]] = {}
        self._declared: dict[str, type[Exception]] = {}
        for namespace in (builtins, errors):
            for found in vars(namespace).values():
                if isinstance(found, type) and issubclass(found, Exception):
                    self._classes[_name_of(found)] = found

    def register(self, cls: type[Exception]) -> None:
        """Rebuild errors of exactly this class as themselves. Registering a class again changes nothing.

        Raises ``ConfigurationError`` for anything but an exception class, ``DuplicateName`` if another class of the
        same qualified name is registered.
        """
        given: Any = cls  # users without a type checker
        if not (isinstance(given, type) and issubclass(given, Exception)):
            raise ConfigurationError(f"only classes derived from Exception can be named in raises=, not {cls!r}")
        known = self._classes.setdefault(_name_of(cls), cls)
        if known is not cls:
            raise DuplicateName(
                f"two error classes have the name {_name_of(cls)}: records could not distinguish them. Rename one, or "
                f"define it once at module level"
            )
        self._declared[_name_of(cls)] = cls

    def take_in(self, other: ErrorRegistry) -> None:
        """Add the classes of another registry. Raises as ``register``."""
        for cls in other._declared.values():
            self.register(cls)

    def declares(self, type: str) -> bool:
        """Whether the app has named this type (``module.QualifiedName``): callers may see messages of such errors."""
        return type in self._declared

    def rebuild(self, record: ErrorRecord, unknown: type[StepFailed] = StepFailed) -> Exception:
        """The error a record describes: same class, same message (G2), its causes as ``__cause__``.

        ``unknown`` with the recorded type and message replaces a class that is not registered by exactly this name, or
        whose instances cannot be made to have this message again.
        """
        cls = self._classes.get(record.type)
        rebuilt: Exception | None = None
        if record.parts and cls is ExceptionGroup:
            rebuilt = ExceptionGroup(record.message, [self.rebuild(part, unknown) for part in record.parts])
        elif cls is not None:
            rebuilt = _instance(cls, record)
        if rebuilt is None:
            rebuilt = unknown(record.type, record.message)
        if notes := _notes_for(record):
            rebuilt.__notes__ = notes
        if record.cause is not None:
            rebuilt.__cause__ = self.rebuild(record.cause, unknown)
        return rebuilt


def _name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


# ── Describing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _describe(error: BaseException, levels: int) -> ErrorRecord:
    cause = error.__cause__ if error.__suppress_context__ or error.__cause__ is not None else error.__context__
    grouped = _parts_of(error) if levels > 1 else ()
    return ErrorRecord(
        type=_head(_name_of(type(error)), TYPE_LIMIT_BYTES),
        message=_head(_message_of(error), MESSAGE_LIMIT_BYTES),
        args=None if (args := _plain(list(_constructor_args(error)))) is None else tuple(args),
        attributes=_plain({name: value for name, value in vars(error).items() if name != "__notes__"}) or None,
        traceback=_traceback_of(error),
        cause=None if cause is None or levels == 1 else _describe(cause, levels - 1),
        parts=tuple(_describe(part, levels - 1) for part in grouped),
        notes=_notes_of(error),
    )


def _notes_of(error: BaseException) -> tuple[str, ...]:
    notes: Any = getattr(error, "__notes__", ())  # code of users may have set it, to anything
    listed = cast("Sequence[object]", notes) if isinstance(notes, list | tuple) else ()
    texts = [each for each in listed if isinstance(each, str)]
    return tuple(_head(each, TRACEBACK_LIMIT_BYTES) for each in texts[:NOTES_LIMIT])


def _parts_of(error: BaseException) -> tuple[BaseException, ...]:
    group: Any = error
    return group.exceptions[:PARTS_LIMIT] if isinstance(error, BaseExceptionGroup) else ()


def _message_of(error: BaseException) -> str:
    own, parts = _own_message_of(error), _parts_of(error)
    if not parts:
        return own
    told = "; ".join(f"{type(part).__name__}: {_own_message_of(part)}" for part in parts)
    # A group that was made from a record has its parts in its message, with the number of all there were.
    return own.rpartition(" (")[0] if told in own else f"{own}: {told}"


def _own_message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide the failure it was to describe
        return f"(the error's own __str__ failed; its arguments were {len(error.args)})"


def _constructor_args(error: BaseException) -> tuple[Any, ...]:
    """The arguments for the class, from its ``__reduce__``: OSError names its file only there."""
    try:
        reduced = error.__reduce__()
    except Exception:  # noqa: BLE001 - a class may refuse; its plain arguments are the next best
        return error.args
    match reduced:
        case (made_by, tuple(), *_) if made_by is type(error):
            return cast("tuple[Any, ...]", reduced[1])
        case _:
            return error.args


def _plain(values: Any) -> Any:
    """The values if plain JSON carries them exactly and within the limit, else ``None``."""
    try:
        return _PLAIN.copy(values, "the error", VALUES_LIMIT_BYTES)[1]
    except InvalidInput:
        return None


def _traceback_of(error: BaseException) -> str:
    try:
        frames = [each for each in traceback.walk_tb(error.__traceback__) if _is_of_user(each[0].f_code.co_filename)]
        # The last frames show the place of the error; a RecursionError has a thousand before them.
        text = "".join(traceback.StackSummary.extract(iter(frames[-TRACEBACK_LIMIT_FRAMES:])).format())
    except Exception:  # noqa: BLE001 - reading source lines can fail in many ways
        return ""
    data = _unicode(text)
    if len(data) <= TRACEBACK_LIMIT_BYTES:
        return data.decode()
    return f"{_CUT}\n" + data[len(_CUT.encode()) + 1 - TRACEBACK_LIMIT_BYTES :].decode(errors="ignore")


def _is_of_user(file: str) -> bool:
    """Whether a frame is of users' code or of what it has called; those of the runtime say nothing about it."""
    return not file.startswith((f"{_PACKAGE}/", *_FRAMES_LEFT_OUT)) or file.startswith(_USERS_WITHIN)


def _head(text: str, limit_bytes: int) -> str:
    data = _unicode(text)
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - len(_CUT.encode())].decode(errors="ignore") + _CUT


def _unicode(text: str) -> bytes:
    return text.encode(errors="backslashreplace")  # lone surrogates, as in names of files, are not Unicode


# ── Telling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def in_one_line(record: ErrorRecord) -> str:
    """The error for a line of text: the name of its class, and its message.

    >>> in_one_line(describe(KeyError("sku-9")))
    "KeyError: 'sku-9'"
    """
    return f"{record.type.rpartition('.')[2]}: {record.message}"


def without_values(record: ErrorRecord, why: str = "values are sealed here") -> ErrorRecord:
    """The error without what may hold values of users: its types and the places in the code are left, and ``why``."""
    return ErrorRecord(
        type=record.type,
        message=f"(not shown: {why})",
        traceback=record.traceback,
        cause=None if record.cause is None else without_values(record.cause, why),
        parts=tuple(without_values(each, why) for each in record.parts),
    )


def shortened(record: ErrorRecord, message_characters: int) -> ErrorRecord:
    """The error with the beginnings of its messages, and of those of its causes and parts."""
    message = record.message
    return replace(
        record,
        message=message if len(message) <= message_characters else f"{message[:message_characters]}{_CUT}",
        cause=None if record.cause is None else shortened(record.cause, message_characters),
        parts=tuple(shortened(part, message_characters) for part in record.parts),
    )


def traceback_text(record: ErrorRecord) -> str:
    """Where an error comes from, in many lines: its causes first, as Python prints them, and itself last."""
    told = [] if record.cause is None else [traceback_text(record.cause), "", "This was the cause of:", ""]
    for part in record.parts:
        told += [traceback_text(part), "", "This is part of:", ""]
    told += record.notes
    if record.traceback:
        told.append(record.traceback.rstrip("\n"))
    return "\n".join([*told, in_one_line(record)])


# ── Rebuilding ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _notes_for(record: ErrorRecord) -> list[str]:
    """The notes of an error that is made from a record: its own, and its traceback."""
    return [*record.notes, *([f"{RAISED_AT}\n{record.traceback.rstrip()}"] if record.traceback else [])]


def _instance(cls: type[Exception], record: ErrorRecord) -> Exception | None:
    """An instance of exactly this class with exactly the recorded message, if there is a way to make one."""
    for make in _ways(cls, record):
        try:
            made = make()
            made.__dict__.update(record.attributes or {})
            if type(made) is cls and _head(str(made), MESSAGE_LIMIT_BYTES) == record.message:
                return made
        except Exception:  # noqa: BLE001, S112 - a constructor or __str__ that fails means: not this way
            continue
    return None


def _ways(cls: type[Exception], record: ErrorRecord) -> Iterator[Callable[[], Exception]]:
    if (args := record.args) is not None:
        yield lambda: cls(*args)
        yield lambda: _bare(cls, args)
    yield lambda: _bare(cls, (record.message,))
    yield lambda: _bare(cls, (_Verbatim(record.message),))


def _bare(cls: type[Exception], args: tuple[Any, ...]) -> Exception:
    """An instance that never ran ``__init__``, which may need other arguments than it passes to Exception."""
    made = cls.__new__(cls, *args)
    made.args = args
    return made


class _Verbatim(str):
    """A message whose ``repr`` is the message itself: ``KeyError`` shows the ``repr`` of its only argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
