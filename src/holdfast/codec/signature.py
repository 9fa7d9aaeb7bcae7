"""Signatures: the arguments of a durable function as JSON, and back (G11, G12).

Built once, when a function is registered. From then on every source of a call (code, a queue, HTTP, the command line)
uses the same signature, so that the same input gives the same bytes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import astuple

from holdfast.codec import faults, jsontext
from holdfast.codec.exactness import Incomplete, complete, difference
from holdfast.codec.parameters import (
    INPUT_LIMIT_BYTES,
    POSITIONAL,
    Parameter,
    arguments_of,
    arrange,
    parameters_of,
    reading_of_only,
    readings_of,
    takes,
)
from holdfast.codec.steadying import steadied
from holdfast.codec.typed import Codec, decoder_of
from holdfast.errors import InvalidInput, SerializationError


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """The parameters and the result of a durable function. ``what`` names it in messages: ``"workflow 'checkout'"``."""

    name: str
    what: str
    parameters: tuple[Parameter, ...]
    result: Codec[Any]
    _arguments: type[Struct] = field(repr=False)
    _encode: Callable[[Any], bytes] = field(repr=False)
    _decode: Callable[[bytes], Struct] = field(repr=False)
    _atoms: tuple[frozenset[type], ...] = field(repr=False)
    _defaults: tuple[Any, ...] = field(repr=False)
    """The defaults of the optional positional parameters."""
    _required: int = field(repr=False)
    """How many positional arguments make a complete call; -1 if keywords are needed too."""
    _simple: int = field(repr=False)
    """How many positional arguments there can be, if there are no other parameters; else -1."""
    _floats: bool = field(repr=False)
    """Whether an int may have been passed for a float."""
    _sets: bool = field(repr=False)
    """Whether an argument may hold sets."""

    @property
    def accepts_nothing(self) -> bool:
        """Whether the function has no parameters."""
        return not self.parameters

    @property
    def parameter_count(self) -> int:
        """How many parameters there are; ``*args`` and ``**kwargs`` count as one each."""
        return len(self.parameters)

    @property
    def parameter_names(self) -> list[str]:
        """The names of the parameters, in their order."""
        return [each.name for each in self.parameters]

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], what: str = "", limit_bytes: int = INPUT_LIMIT_BYTES
    ) -> bytes:
        """The arguments of a call as canonical JSON: one object, a key for each parameter (G11).

        The same input gives the same bytes: defaults are filled in, and the keys of objects, the fields of classes
        and the members of sets are sorted. So the order of a dict among the arguments is not kept; pass a list of
        pairs where it matters. Every argument is proven to come back unchanged (see ``exactness``); an int passed for a
        float becomes that float.

        Raises ``InvalidInput`` if the arguments do not match the parameters or their types, ``SerializationError`` if
        one does not survive JSON, ``PayloadTooLarge`` above ``limit_bytes``. ``what`` overrides the name in messages.

        >>> def charge(card: str, cents: int, currency: str = "EUR") -> str: ...
        >>> signature_of(charge).bind(("tok", 100), {})
        b'{"card":"tok","cents":100,"currency":"EUR"}'
        """
        if not kwargs and self._required <= len(args) <= self._simple:
            values = args + self._defaults[len(args) - self._required :]
        else:
            values = arrange(self.parameters, args, kwargs, what or self.what)
        return self._write(values, what or self.what, limit_bytes)

    def unbind(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that ``bind`` wrote, ready for ``fn(*args, **kwargs)``.

        A parameter that was added later takes its default. Raises ``SerializationError`` if the data do not fit the
        parameters any more, for example because one of them is gone: silently dropping an argument would be wrong.

        >>> def charge(card: str, *, cents: int) -> str: ...
        >>> signature_of(charge).unbind(b'{"card":"tok","cents":100}')
        (('tok',), {'cents': 100})
        """
        return self._spread(self._read(data))

    def unbind_steady(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Like ``unbind``, for a workflow body: its sets have the same order in every process (G2)."""
        values = self._read(data)
        return self._spread(steadied(values) if self._sets else values)

    def _spread(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self._simple >= 0:
            return values, {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter, value in zip(self.parameters, values, strict=True):
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    args.extend(value)
                case inspect.Parameter.VAR_KEYWORD:
                    kwargs.update(value)
                case inspect.Parameter.KEYWORD_ONLY:
                    kwargs[parameter.name] = value
                case _:
                    args.append(value)
        return tuple(args), kwargs

    def snapshot(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit_bytes: int = INPUT_LIMIT_BYTES
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The arguments of a call as they are now, proven to fit the type hints: later changes to them do not show.

        Arguments that cannot change and certainly fit are returned as they are. Raises what ``bind`` raises.
        """
        if not kwargs and self._required <= len(args) <= self._simple:
            for value, atoms in zip(args, self._atoms):  # noqa: B905 - defaults may be left out
                if type(value) not in atoms:
                    break
            else:
                return args, kwargs
        return self.unbind(self.bind(args, kwargs, limit_bytes=limit_bytes))

    def fingerprint_bytes(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """A canonical encoding of a call's arguments, to distinguish calls. Cheap: nothing is decoded or proven.

        Positional and keyword spelling give the same bytes. An argument equal to its default is left out, so that a
        new optional parameter leaves old journals valid (G13).

        Raises ``InvalidInput`` if the arguments do not match the parameters, ``SerializationError``, naming the
        parameter, if one has no JSON form.

        >>> def charge(card: str, cents: int, currency: str = "EUR") -> str: ...
        >>> signature_of(charge).fingerprint_bytes(("tok",), {"cents": 100, "currency": "EUR"})
        b'["tok",100]'
        """
        complete = not kwargs and len(args) == self._required
        call: Any = args if complete else self._shortest_call(arrange(self.parameters, args, kwargs, self.what))
        try:
            data = self._encode(call)
        except Exception as error:
            raise self._unencodable(arrange(self.parameters, args, kwargs, self.what), self.what, error) from error
        if jsontext.nests_too_deep(data):
            raise faults.too_deep(f"the input of {self.what}")
        return data

    def parse(self, text: bytes | str, what: str = "", limit_bytes: int = INPUT_LIMIT_BYTES) -> bytes:
        """Arguments that a person wrote as JSON, checked, in the form that ``bind`` writes.

        The text is an object of arguments by name, an array of arguments in order, or, for a function of one
        parameter, that argument itself. If it can be read in two ways, an object whose keys are all names of parameters
        gives arguments by name, and an array for a function of one parameter is that argument; the other way is tried
        only if that does not fit the types.

        Raises ``InvalidInput`` that says what is wrong and where, and ``PayloadTooLarge``.

        >>> def charge(card: str, cents: int = 0) -> str: ...
        >>> signature_of(charge).parse('["tok", 100]') == signature_of(charge).parse('{"cents": 100, "card": "tok"}')
        True
        """
        what = what or self.what
        data = text.encode() if isinstance(text, str) else text
        return self._first_that_fits(readings_of(data, self.parameters, what), what, limit_bytes)

    def parse_argument(self, text: str) -> bytes:
        """The one argument of a function of one parameter as JSON, checked, in the form that ``bind`` writes.

        Nothing else can be meant by it: an array is that argument, and so is an object with the parameter's name.

        Raises ``InvalidInput`` that says what is wrong and where, and ``PayloadTooLarge``.

        >>> def charge(card) -> str: ...
        >>> signature_of(charge).parse_argument('["tok"]'), signature_of(charge).parse_argument('{"card": 1}')
        (b'{"card":["tok"]}', b'{"card":{"card":1}}')
        """
        return self._first_that_fits([reading_of_only(text.encode(), self.parameters)], self.what, INPUT_LIMIT_BYTES)

    def _first_that_fits(self, readings: Iterable[bytes], what: str, limit_bytes: int) -> bytes:
        first: Exception | None = None
        for reading in readings:
            try:
                values = astuple(self._decode(reading))
            except Exception as error:  # noqa: BLE001 - raised below, unless another reading fits
                first = first or error
                continue
            return self._write(values, what, limit_bytes)
        assert first is not None, "there is at least one reading"
        raise self._blame(first, what) from first

    def _shortest_call(self, values: tuple[Any, ...]) -> Any:
        """The call without its defaults: positional arguments, and keywords if there are any."""
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        optional: list[Parameter] = []
        for parameter, value in zip(self.parameters, values, strict=True):
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    optional = [] if value else optional
                    positional.extend(value)
                case inspect.Parameter.VAR_KEYWORD:
                    keywords.update(value)
                case inspect.Parameter.KEYWORD_ONLY:
                    if parameter.required or self._canonical(value) != parameter.default_bytes:
                        keywords[parameter.name] = value
                case _:
                    optional = [] if parameter.required else [*optional, parameter]
                    positional.append(value)
        while optional and self._canonical(positional[-1]) == optional.pop().default_bytes:
            positional.pop()
        return {"args": positional, "kwargs": keywords} if keywords else positional

    def _canonical(self, value: Any) -> bytes | None:
        try:
            return self._encode(value)
        except Exception:  # noqa: BLE001 - then it is no default, and encoding the call says what is wrong
            return None

    def _write(self, values: tuple[object, ...], what: str, limit_bytes: int) -> bytes:
        data = self._encoded(values, what, limit_bytes)
        for value, atoms in zip(values, self._atoms):  # noqa: B905 - as long as each other; the check costs 100 ns
            kind = type(value)
            if kind not in atoms or (kind is float and not isfinite(cast("float", value))):
                try:
                    copies = self._verify(values, data, what)
                except Incomplete:
                    complete(values)
                    return self._write(values, what, limit_bytes)
                return self._encoded(copies, what, limit_bytes) if self._floats else data
        return data

    def _encoded(self, values: tuple[object, ...], what: str, limit_bytes: int) -> bytes:
        try:
            data = self._encode(self._arguments(*values))
        except Exception as error:
            raise self._unencodable(values, what, error) from error
        if len(data) > limit_bytes:
            raise faults.too_large(len(data), limit_bytes, f"the input of {what}")
        return data

    def _verify(self, values: tuple[Any, ...], data: bytes, what: str) -> tuple[Any, ...]:
        if jsontext.nests_too_deep(data):
            raise faults.too_deep(f"the input of {what}")
        try:
            copies = astuple(self._decode(data))
        except Exception as error:
            raise self._blame(error, what, values) from error
        for parameter, value, copy in zip(self.parameters, values, copies, strict=True):
            if (found := difference(value, copy)) is not None:
                argument = f"argument {parameter.name!r} of {what}"
                raise faults.not_exact(found, value, parameter.codec.name, argument)
        return copies

    def _read(self, data: bytes) -> tuple[Any, ...]:
        if jsontext.nests_too_deep(data):
            raise faults.too_deep(f"the recorded input of {self.what}")
        try:
            return astuple(self._decode(data))
        except Exception as error:
            raise SerializationError(
                f"the recorded input of {self.what} does not fit its parameters: {self._blame(error, self.what)}. If "
                f"they have changed, keep the older parameters, new ones with defaults, while older input is left"
            ) from error

    def _blame(self, error: Exception, what: str, values: tuple[Any, ...] | None = None) -> InvalidInput:
        """The error for arguments that JSON or a hint refused, naming the parameter."""
        complaint = faults.complaint_of(error)
        match complaint.text.split() if not complaint.path else ():
            case ("object", "missing", "required", "field", name):
                return InvalidInput(f"{what} is missing argument {name!r}; {takes(self.parameters)}")
            case ("object", "contains", "unknown", "field", name):
                return InvalidInput(f"{what} has no parameter {name!r}; {takes(self.parameters)}")
            case _:
                pass
        for index, parameter in enumerate(self.parameters):
            step = f".{parameter.name}"
            inside = complaint.path.removeprefix(step)
            if complaint.path.startswith(step) and (not inside or inside[0] in ".["):
                argument, hint = f"argument {parameter.name!r} of {what}", parameter.codec.name
                inner = faults.Complaint(complaint.text, inside)
                if values is not None:
                    return InvalidInput(faults.mismatch(values[index], hint, argument, inner))
                at = f" at {inside}" if inside else ""
                return InvalidInput(f"{argument} does not fit its type {hint}{at}: {complaint.text}")
        return InvalidInput(f"the input of {what} is wrong: {complaint.text}; {takes(self.parameters)}")

    def _unencodable(self, values: tuple[Any, ...], what: str, error: Exception) -> SerializationError:
        for parameter, value in zip(self.parameters, values, strict=True):
            try:
                self._encode(value)
            except Exception as its_error:  # noqa: BLE001 - whatever it raises, it is the argument to name
                return faults.unencodable(value, f"argument {parameter.name!r} of {what}", its_error)
        return faults.unencodable(values, f"the input of {what}", error)


def signature_of(fn: Callable[..., Any], what: str = "", *, given: int = 0) -> Signature:
    """The signature of a function; ``what`` names it in messages (``"step 'charge'"``).

    The first ``given`` parameters are left out: the code that calls the function passes them.

    Annotations are resolved at once, postponed ones (PEP 563) too. Raises ``ConfigurationError`` or
    ``SerializationError``, naming the parameter, if one cannot be resolved or carried as typed JSON.

    >>> async def checkout(order: dict[str, int], *, note: str = "") -> list[str]: ...
    >>> found = signature_of(checkout, "workflow 'checkout'")
    >>> found.parameter_count, found.result.name
    (2, 'list[str]')
    >>> found.bind(({"book": "two"},), {})
    Traceback (most recent call last):
        ...
    holdfast.errors.InvalidInput: argument 'order' of workflow 'checkout' does not fit its type dict[str, int] at \
[...]: expected int, got str. Give what the type hint says, or correct the type hint
    """
    name = getattr(fn, "__name__", repr(fn))
    what = what or f"function {name!r}"
    parameters, result = parameters_of(fn, what, given)
    positional = [each for each in parameters if each.kind in POSITIONAL]
    required = [each for each in positional if each.required]
    needs_keywords = any(each.kind is inspect.Parameter.KEYWORD_ONLY and each.required for each in parameters)
    arguments = arguments_of(parameters)
    unordered = any(each.codec.unordered for each in parameters)
    sets = any(each.codec.sets for each in parameters)
    return Signature(
        name=name,
        what=what,
        parameters=parameters,
        result=result,
        _arguments=arguments,
        _encode=jsontext.canonical_by_parts if unordered else jsontext.canonical,
        _decode=decoder_of(arguments, sets=sets),
        _atoms=tuple(each.codec.atoms for each in parameters),
        _defaults=tuple(each.default for each in positional if not each.required),
        _required=-1 if needs_keywords else len(required),
        _simple=len(positional) if len(positional) == len(parameters) else -1,
        _floats=any(each.codec.floats for each in parameters),
        _sets=sets,
    )
