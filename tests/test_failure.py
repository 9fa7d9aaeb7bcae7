"""Failures as data: the same class and message come back, and nothing is ever found by a name in data (G2, G12)."""

from __future__ import annotations

import builtins
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.errors import ConfigurationError, DuplicateName, ExecutionFailed, HoldfastError, Refused, StepFailed
from holdfast.failure import (
    CAUSES_LIMIT_LEVELS,
    MESSAGE_LIMIT_BYTES,
    TRACEBACK_LIMIT_BYTES,
    TYPE_LIMIT_BYTES,
    ErrorRecord,
    ErrorRegistry,
    describe,
)


class CardDeclined(Exception):
    """Wants other arguments than it hands on, like most errors of applications."""

    def __init__(self, card: str, cents: int) -> None:
        super().__init__(f"{card} declined for {cents}")
        self.card = card
        self.cents = cents


class KeywordOnly(ValueError):
    def __init__(self, *, code: int) -> None:
        super().__init__()
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


class Reduced(Exception):
    """Tells by ``__reduce__`` how to make it again."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left} and {right}")
        self.pair = (left, right)

    def __reduce__(self) -> Any:
        return Reduced, self.pair


class ReducedElsewhere(Exception):
    def __reduce__(self) -> Any:
        return os.system, ("true",)


class Unreducible(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("no")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("broken")


class Falsy(Exception):
    def __bool__(self) -> bool:
        return False


class Counting(Exception):
    """Adds to its message each time it is made, so calling it again says something else."""

    def __init__(self, text: str) -> None:
        super().__init__(text + "!")


class Changeling(Exception):
    """Calling the class gives an instance of another one."""

    def __new__(cls, *args: Any) -> Any:
        return ValueError(*args) if args == ("swap",) else super().__new__(cls, *args)


MINE = (
    CardDeclined,
    KeywordOnly,
    Reduced,
    ReducedElsewhere,
    Unreducible,
    Unprintable,
    Counting,
    Falsy,
    Changeling,
)


@pytest.fixture
def registry() -> ErrorRegistry:
    registry = ErrorRegistry()
    for cls in MINE:
        registry.register(cls)
    return registry


def through_json(error: BaseException) -> ErrorRecord:
    record = describe(error)
    again = msgspec.json.decode(msgspec.json.encode(record), type=ErrorRecord)
    assert again == record
    return again


def raised(action) -> Exception:
    with pytest.raises(Exception) as caught:
        action()
    return caught.value


REBUILT = [
    ValueError("no"),
    ValueError(),
    ValueError("a", 1, None, [1.5]),
    ValueError({1, 2}),
    ValueError("x" * 100_000),
    KeyError("sku-9"),
    KeyError(5),
    KeyError(),
    KeyError("a", "b"),
    KeyError((1, 2)),
    KeyError("x" * 100_000),
    IndexError("list index out of range"),
    ConnectionResetError(104, "reset by peer"),
    FileNotFoundError(2, "No such file", "/x"),
    FileExistsError(17, "exists", "/x", None, "/y"),
    TimeoutError("late"),
    ZeroDivisionError("division by zero"),
    StopIteration(5),
    RecursionError("maximum recursion depth exceeded"),
    ImportError("no module", name="x"),
    HoldfastError("h"),
    StepFailed("shop.Declined", "no funds"),
    ExecutionFailed("failed", error_type="shop.Declined", error_message="no funds"),
    Refused(1, None),
    errors.Terminal("stop"),
    errors.WaitTimeout("late"),
    CardDeclined("tok", 5),
    KeywordOnly(code=3),
    Reduced(1, 2),
    ReducedElsewhere("x"),
    Unreducible("x"),
    Counting("x"),
    Falsy("x"),
]


@pytest.mark.parametrize("error", REBUILT, ids=lambda error: f"{type(error).__name__}-{str(error)[:20]}")
def test_class_and_message_come_back(registry, error):
    record = through_json(error)
    rebuilt = registry.rebuild(record)
    assert type(rebuilt) is type(error)
    assert str(rebuilt) == record.message
    assert len(str(error)) > MESSAGE_LIMIT_BYTES or str(rebuilt) == str(error)
    assert describe(rebuilt).message == record.message


def test_what_was_set_on_an_error_comes_back(registry):
    rebuilt = registry.rebuild(through_json(CardDeclined("tok", 5)))
    assert isinstance(rebuilt, CardDeclined)
    assert (rebuilt.card, rebuilt.cents) == ("tok", 5)
    noted = ValueError("x")
    noted.add_note("a note")
    assert registry.rebuild(through_json(noted)).__notes__ == ["a note"]
    failed = registry.rebuild(through_json(REBUILT[22]))
    assert isinstance(failed, ExecutionFailed)
    assert (failed.error_type, failed.error_message) == ("shop.Declined", "no funds")
    missing = registry.rebuild(through_json(raised(lambda: Path("/no/such/file").read_text(encoding="utf-8"))))
    assert isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.filename) == (2, "/no/such/file")


def test_arguments_that_json_cannot_carry_are_left_out(registry):
    record = through_json(ValueError(object, float("nan")))
    assert record.args is None
    assert str(registry.rebuild(record)) == record.message
    strange = CardDeclined("tok", 5)
    strange.card = object()  # type: ignore[assignment]
    assert through_json(strange).attributes is None


STOOD_IN_FOR = [
    UnicodeDecodeError("utf-8", b"a", 0, 1, "bad"),
    KeyboardInterrupt(),
    SystemExit(3),
    Unprintable("x"),
    Refused(1, object()),  # type: ignore[arg-type]
]


def test_a_group_comes_back_as_a_group_and_says_what_is_in_it(registry):
    rebuilt = registry.rebuild(through_json(ExceptionGroup("several", [ValueError("a"), KeyError("b")])))
    assert isinstance(rebuilt, ExceptionGroup)
    assert [(type(part), str(part)) for part in rebuilt.exceptions] == [(ValueError, "a"), (KeyError, "'b'")]
    assert "ValueError: a; KeyError: 'b'" in str(rebuilt)


def test_a_group_says_the_same_however_often_it_comes_back(registry):
    first = describe(ExceptionGroup("several", [ValueError(f"{number}") for number in range(9)]))
    again = describe(registry.rebuild(first))
    assert again.message == first.message and "several (9 sub-exceptions): ValueError: 0; " in first.message


def test_a_part_that_cannot_say_what_it_is_hides_none_of_the_others():
    message = describe(ExceptionGroup("several", [Unprintable("x"), ValueError("seen")])).message
    assert message.startswith("several (2 sub-exceptions): Unprintable: (") and message.endswith("; ValueError: seen")


@pytest.mark.parametrize("error", STOOD_IN_FOR, ids=lambda error: type(error).__name__)
def test_what_cannot_be_made_again_comes_back_as_step_failed(registry, error):
    record = through_json(error)
    rebuilt = registry.rebuild(record)
    assert type(rebuilt) is StepFailed
    assert rebuilt.error_type == record.type == f"{type(error).__module__}.{type(error).__qualname__}"
    assert rebuilt.error_message == record.message


def test_a_class_that_makes_instances_of_another_is_not_trusted(registry):
    record = ErrorRecord(type=describe(Changeling("x")).type, message="swap", args=("swap",))
    assert type(registry.rebuild(record)) is not ValueError


# ── Only registered names ───────────────────────────────────────────────────────────────────────────────────────────

HOSTILE = [
    "os.system",
    "subprocess.Popen",
    "builtins.eval",
    "builtins.object",
    "builtins.BaseException",
    "builtins.KeyboardInterrupt",
    "builtins.SystemExit",
    "ValueError",
    "builtins.ValueError ",
    "builtins.valueerror",
    "holdfast.errors.__doc__",
    "holdfast.errors.ControlFlow",
    "holdfast.errors.Evicted",
    "test_failure.CardDeclined",
    "__main__.CardDeclined",
    "",
    ".",
    "\x00",
    "../../etc/passwd",
    "x" * 10_000,
    "__class__.__mro__",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_type_name_is_only_text(name):
    rebuilt = ErrorRegistry().rebuild(ErrorRecord(type=name, message="m", args=("true",), attributes={"a": 1}))
    assert type(rebuilt) is StepFailed
    assert (rebuilt.error_type, rebuilt.error_message) == (name, "m")


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(ErrorRegistry()._classes)) | st.text(),
    st.text(),
    st.none() | st.lists(st.none() | st.integers() | st.text() | st.lists(st.integers())).map(tuple),
    st.none() | st.dictionaries(st.text() | st.sampled_from(["args", "__class__", "__dict__", "errno"]), st.integers()),
)
@example("builtins.OSError", "", (1, "x", None, 1.5), {"__class__": 3, "args": 4, "__str__": 5, "with_traceback": 6})
def test_a_record_of_any_content_gives_an_error_of_that_class_or_step_failed(name, message, args, attributes):
    registry = ErrorRegistry()
    rebuilt = registry.rebuild(ErrorRecord(type=name, message=message, args=args, attributes=attributes))
    if type(rebuilt) is StepFailed and name != "holdfast.errors.StepFailed":
        assert (rebuilt.error_type, rebuilt.error_message) == (name, message)
    else:
        assert str(rebuilt) == message or name == "holdfast.errors.StepFailed"
        assert f"{type(rebuilt).__module__}.{type(rebuilt).__qualname__}" == name


def test_nothing_is_imported_for_a_name():
    before = set(sys.modules)
    ErrorRegistry().rebuild(ErrorRecord(type="this.Zen", message=""))
    ErrorRegistry().rebuild(ErrorRecord(type="antigravity.Fly", message=""))
    assert set(sys.modules) == before


def test_registries_do_not_share_classes():
    mine, other = ErrorRegistry(), ErrorRegistry()
    mine.register(CardDeclined)
    record = describe(CardDeclined("tok", 1))
    assert type(mine.rebuild(record)) is CardDeclined
    assert type(other.rebuild(record)) is StepFailed


def test_builtins_and_holdfasts_own_errors_are_known():
    registry = ErrorRegistry()
    for namespace in (builtins, errors):
        for cls in vars(namespace).values():
            if isinstance(cls, type) and issubclass(cls, BaseException):
                known = f"{cls.__module__}.{cls.__qualname__}" in registry._classes
                assert known == issubclass(cls, Exception)


def test_only_exception_classes_can_be_registered():
    registry = ErrorRegistry()
    for wrong in (int, KeyboardInterrupt, "ValueError", ValueError("x")):
        with pytest.raises(ConfigurationError, match="only classes derived from Exception"):
            registry.register(wrong)  # type: ignore[arg-type]


def test_two_classes_of_one_name_are_refused_and_one_class_twice_is_not():
    def local(number: int) -> type[Exception]:
        class Local(Exception):
            code = number

        return Local

    registry = ErrorRegistry()
    first = local(1)
    registry.register(first)
    registry.register(first)
    with pytest.raises(DuplicateName, match=r"Local.*could not distinguish them"):
        registry.register(local(2))


# ── Bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_are_bounded_in_bytes(registry):
    assert describe(ValueError("x" * MESSAGE_LIMIT_BYTES)).message == "x" * MESSAGE_LIMIT_BYTES
    cut = describe(ValueError("é" * MESSAGE_LIMIT_BYTES))
    assert len(cut.message.encode()) <= MESSAGE_LIMIT_BYTES
    assert cut.message.endswith("(cut)")
    assert cut.args is None
    long_name = type("X" * 5000, (Exception,), {})
    assert len(describe(long_name()).type.encode()) <= TYPE_LIMIT_BYTES


def test_text_that_is_no_unicode_is_escaped(registry):
    record = through_json(ValueError("\ud800"))
    assert record.message == "\\ud800"
    assert str(registry.rebuild(record)) == "\\ud800"


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    raise ValueError("at the bottom")


def test_a_traceback_is_kept_as_the_end_of_its_text():
    record = describe(raised(lambda: deep(0)))
    assert 'raise ValueError("at the bottom")' in record.traceback
    assert len(record.traceback.encode()) <= TRACEBACK_LIMIT_BYTES
    long = describe(raised(lambda: deep(200)))
    assert len(long.traceback.encode()) <= TRACEBACK_LIMIT_BYTES
    assert long.traceback.endswith('raise ValueError("at the bottom")\n')
    assert describe(ValueError("never raised")).traceback == ""


def test_a_long_traceback_is_cut_at_its_start(monkeypatch):
    monkeypatch.setattr("holdfast.failure.traceback.StackSummary.format", lambda _: ["é" * 10_000, "the end"])
    text = describe(ValueError("x")).traceback
    assert text.startswith("… (cut)\n")
    assert text.endswith("éthe end")
    assert len(text.encode()) <= TRACEBACK_LIMIT_BYTES


def test_a_traceback_that_cannot_be_formatted_is_left_out(monkeypatch):
    def fails(*_: Any) -> Any:
        raise OSError("disk")

    monkeypatch.setattr("holdfast.failure.traceback.format_tb", fails)
    assert describe(ValueError("x")).traceback == ""


def chain(length: int) -> Exception:
    error: Exception = ValueError("0")
    for number in range(1, length):
        outer = ValueError(str(number))
        outer.__cause__ = error
        error = outer
    return error


def test_causes_come_back_to_a_bounded_depth(registry):
    rebuilt: BaseException | None = registry.rebuild(through_json(chain(CAUSES_LIMIT_LEVELS + 2)))
    messages = []
    while rebuilt is not None:
        messages.append(str(rebuilt))
        rebuilt = rebuilt.__cause__
    assert messages == ["4", "3", "2"]


def test_a_cause_is_what_python_would_show(registry):
    def implicit() -> None:
        try:
            raise Falsy("inner")
        except Falsy:
            raise ValueError("outer")  # noqa: B904 - the implicit context is what is tested

    def suppressed() -> None:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer") from None

    def explicit() -> None:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer") from Falsy("cause")

    assert str(registry.rebuild(through_json(raised(implicit))).__cause__) == "inner"
    assert registry.rebuild(through_json(raised(suppressed))).__cause__ is None
    assert type(registry.rebuild(through_json(raised(explicit))).__cause__) is Falsy


def test_a_cycle_of_causes_ends():
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert describe(first).cause is not None


def test_a_record_is_small_as_json():
    record = msgspec.json.encode(describe(KeyError("sku-9")))
    assert record == b"""{"type":"builtins.KeyError","message":"'sku-9'","args":["sku-9"]}"""
