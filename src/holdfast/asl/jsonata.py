"""JSONata expressions of a state machine, compiled once and evaluated as Step Functions does.

The only module that knows the engine, `jlens`. It needs the extra ``asl``.

An evaluation depends on its arguments alone: the time and the seed are among them, and its limit is a number of steps
and not of seconds, so that a replay comes to the same result on any machine. Only what takes seconds in few steps, such
as a regular expression that backtracks, is ended by the clock; a process that was stopped meanwhile evaluates again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

import msgspec

from holdfast.asl.errors import QUERY_EVALUATION_ERROR, EvaluationError
from holdfast.asl.jsonata_functions import CONSTANT, BadArgument, drawing
from holdfast.asl.jsonata_integers import WHOLE, Ambiguous, large_numbers, large_parsed, restored
from holdfast.asl.jsonata_quicker import QUICK, quicker
from holdfast.asl.jsonata_reading import LATER_OPERATORS, literals, names_in, plain_path, tokens, without_context
from holdfast.clock import busy_seconds
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    import jlens

INVALID: Final = "INVALID_JSONATA_EXPRESSION"
UNSUPPORTED: Final = "UNSUPPORTED_JSONATA_EXPRESSION"

MAX_STEPS: Final = 2_000_000
"""About a third of a second."""
SECONDS: Final = 2.0
"""The engine counts a call of a function as one step, however long the texts and arrays that it works on are, and none
within a regular expression, which may backtrack without end: only a clock ends these.
"""
TIMED_OUT: Final = "D1012"
"""The engine's code for the end by the clock."""
HELD_UP: Final = 0.5
"""An evaluation that the clock ends, and that had less than this share of the limit on the processor, was held up."""
ONCE_MORE: Final = 2
"""Then it is evaluated once more, with that many times the limit."""
MAX_DEPTH: Final = 2_000
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_ITEMS: Final = 1_000_000

COMPILED: Final = 4_096
SEED_BITS: Final = 0xFFFF_FFFF_FFFF_FFFF
MISSING: Final = object()

Reads = Mapping[str, Any]
"""What an expression reads: by name ``True`` for a whole value, or what it reads of it."""


class InvalidExpression(Exception):
    """Step Functions refuses an expression when a machine is created. ``code`` is that of its diagnostic."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Expression:
    """A compiled expression, safe to use from any thread."""

    __slots__ = ("_engines", "_literals", "_names", "_path", "_reads", "source")

    def __init__(self, source: str, reads: Reads) -> None:
        found = list(tokens(source))
        self.source = source
        self._reads = dict.fromkeys(names_in(found), WHOLE) | dict(reads)
        self._path = plain_path(source)
        self._names = frozenset(reads)
        self._literals = tuple(large_numbers(list(literals(source, found))))
        self._engines: dict[bool, jlens.Expression] = {}

    @property
    def names(self) -> frozenset[str]:
        """The variables it reads, without the dollar sign; ``states`` is among them where it is read."""
        return self._names

    def reads_of_states(self) -> frozenset[str]:
        """The fields of ``$states`` that it reads by name."""
        return frozenset(fields_of(self._reads.get("states")) or ())

    def evaluate(
        self, states: Mapping[str, Any], variables: Mapping[str, Any], *, field: str, now_ms: int, seed: int
    ) -> Any:
        """The value, with ``$states`` and the variables bound. ``field`` is where the expression stands, for the cause.

        Raises :class:`EvaluationError` with ``States.QueryEvaluationError`` and the text of AWS.
        """
        if self._path is not None and (value := walked(self._path, {**variables, "states": states})) is not MISSING:
            return value
        values = {name: variables[name] for name in self._reads if name in variables}
        values["states"] = self._states_read(states)
        quick = QUICK.isdisjoint(values)  # else a variable has the name of a function

        def by_engine(seconds: float) -> str | None:
            return self._engine(quick=quick).evaluate_json(
                None,
                {"eval": None, **drawing(seed), **values},
                now=now_ms,
                seed=seed & SEED_BITS,
                timeout=seconds,
                max_steps=MAX_STEPS,
                max_depth=MAX_DEPTH,
                max_string_length=MAX_BYTES,
                max_array_length=MAX_ITEMS,
                max_result_size=MAX_BYTES,
            )

        large = list(self._literals)
        with_parsed = large_parsed.set(large)
        try:
            result = unhindered(by_engine, SECONDS)
            if result is not None:
                return restored(result, values, self._reads, large)
        except Exception as error:
            if not (isinstance(error, BadArgument | Ambiguous | RecursionError | OverflowError) or is_of_engine(error)):
                raise
            raise self._failed(field, "threw an error during evaluation. " + told(error)) from error
        finally:
            large_parsed.reset(with_parsed)
        raise self._failed(field, "returned nothing (undefined).")

    def unexpected_type(self, field: str, expected: str, value: Any) -> EvaluationError:
        """The error for a result that the field cannot be: ``expected`` is a JSON type, as in ``array``."""
        shown = msgspec.json.encode(value).decode()
        return self._failed(
            field,
            f"returned an unexpected result type. Expected '{expected}', but was '{type_of(value)}' for value: {shown}",
        )

    def _engine(self, *, quick: bool) -> jlens.Expression:
        """The engine of the expression, with quicker functions or without."""
        engine = self._engines.get(quick)
        if engine is None:
            engine = engine_of(quicker(self.source, list(tokens(self.source))) if quick else self.source)
            self._engines[quick] = engine
        return engine

    def _states_read(self, states: Mapping[str, Any]) -> dict[str, Any]:
        """What it reads of ``$states``, because each value that is bound is copied into the engine."""
        fields = fields_of(self._reads.get("states"))
        return {name: value for name, value in states.items() if fields is None or name in fields}

    def _failed(self, field: str, what: str) -> EvaluationError:
        told = f"The JSONata expression '{self.source}' specified for the field '{field}' {what}"
        return EvaluationError(QUERY_EVALUATION_ERROR, told)


@lru_cache(COMPILED)
def compile_expression(source: str) -> Expression:
    """The expression of ``{% source %}``. Raises :class:`InvalidExpression` for what Step Functions refuses."""
    reads = reads_of(source)
    refuse_unsupported(source, reads.get("input"))
    return Expression(source, reads["bindings"])


def reads_of(source: str) -> Mapping[str, Any]:
    """What an expression reads of the context item and of variables. Raises :class:`InvalidExpression`."""
    engine = engine_of(source)
    named = engine.reads()["bindings"]
    return engine.reads(dict.fromkeys((*named, "eval", "random", "uuid"), _anything))


def engine_of(source: str) -> jlens.Expression:
    """What the engine makes of the text, with the functions that AWS adds."""
    engine = parsed(source)
    for name, (function, signature) in CONSTANT.items():
        engine.register_function(name, function, signature)
    return engine


@lru_cache(COMPILED)
def _condition(source: str) -> jlens.Expression:
    return parsed(source)


def holds(source: str, text: str, seconds: float) -> bool:
    """Whether a condition about ``$text`` holds. Raises ``InvalidExpression``, and ``TimeoutError`` when time is over.

    Raises ``ConfigurationError`` without the engine.
    """
    engine = _condition(source)
    try:
        return unhindered(lambda limit: engine.evaluate_json(None, {"text": text}, timeout=limit), seconds) == "true"
    except Exception as error:
        if not is_of_engine(error):
            raise
        if error.code == TIMED_OUT:
            raise TimeoutError from error
        raise InvalidExpression(INVALID, told(error)) from error


def unhindered(evaluate: Callable[[float], str | None], seconds: float) -> str | None:
    """The result of an evaluation that the engine's clock ends after ``seconds``: it is repeated where it was held up.

    The clock goes on while the process is stopped or its machine frozen. Raises what ``evaluate`` raises.
    """
    began = busy_seconds()
    try:
        return evaluate(seconds)
    except Exception as error:
        late = is_of_engine(error) and error.code == TIMED_OUT
        if not late or busy_seconds() - began >= seconds * HELD_UP:
            raise
    return evaluate(seconds * ONCE_MORE)


def parsed(source: str) -> jlens.Expression:
    """What the engine makes of the text."""
    try:
        import jlens  # noqa: PLC0415 - an extra, which only machines with JSONata need
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "JSONata and regular expressions of JSONPath need an engine: pip install '.[asl]' in a checkout of Holdfast"
        ) from error
    try:
        return jlens.Expression(source)
    except jlens.JlensError as error:
        raise InvalidExpression(INVALID, told(error)) from error
    except UnicodeEncodeError as error:
        raise InvalidExpression(INVALID, "it has half of a surrogate pair, which is no character of Unicode") from error


def refuse_unsupported(source: str, read: object) -> None:
    """Refuse what AWS's version has not, and references to the context item, which a state machine has none of.

    ``read`` is what the expression reads of the context item: the fields by name, or ``True``, which is said too where
    it is not known, as of ``list{id: %.id}``. A ``$`` is the reason only if the expression reads less without it.
    """
    found = list(tokens(source))
    words = [token.text for token in found if token.kind in {"name", "symbol"}]
    if later := next((word for word in words if word in LATER_OPERATORS), None):
        raise InvalidExpression(INVALID, LATER_OPERATORS[later])
    if "$$" in words:
        raise InvalidExpression(UNSUPPORTED, "Reference to '$$' is not supported.")
    if fields := fields_of(read):
        raise InvalidExpression(UNSUPPORTED, f"Reference to '{next(iter(fields))}' at the top level is not supported.")
    if read is True and "$" in words and reads_of(without_context(source, found)).get("input") is not True:
        raise InvalidExpression(UNSUPPORTED, "Reference to '$' at the top level is not supported.")


def fields_of(read: object) -> Mapping[str, Any] | None:
    """The fields of a value that an expression reads, or ``None`` where it reads the whole value or nothing."""
    return cast("Mapping[str, Any]", read) if isinstance(read, Mapping) else None


def walked(path: tuple[str, ...], values: Mapping[str, Any]) -> Any:
    """What a plain path leads to, or ``MISSING`` where the engine has to say: in an array, and for what is not there.

    It spares the engine the copy, and the value its digits: the engine has no integer above 2**53.
    """
    value: Any = values
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return MISSING
        value = cast("Mapping[str, Any]", value)[name]
    return value


def is_of_engine(error: Exception) -> TypeGuard[jlens.JlensError]:
    """Whether the engine raised it: an error of an expression."""
    return type(error).__module__.partition(".")[0] == "jlens"


def told(error: Exception) -> str:
    """The code of JSONata and its message. Codes of the engine's own limits begin with U and are left out."""
    if is_of_engine(error) and not error.code.startswith("U"):
        return f"{error.code}: {error}"
    return str(error)


def type_of(value: Any) -> str:
    """The name of a JSON type, as JSONata's `$type` has it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _anything(*_arguments: object) -> None:
    """Stands in for a function while it is asked what an expression reads."""
