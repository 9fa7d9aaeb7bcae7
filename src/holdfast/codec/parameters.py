"""Parameters: the arguments that a durable function accepts, from a call in Python or from JSON that a person wrote."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

from msgspec import Raw, Struct, defstruct, field, json

from holdfast.codec import faults, jsontext
from holdfast.codec.exactness import describe
from holdfast.codec.typed import Codec, codec_for
from holdfast.errors import ConfigurationError, InvalidInput, SerializationError
from holdfast.functions import told

_POSITIONAL_ONLY: Final = inspect.Parameter.POSITIONAL_ONLY
_POSITIONAL_OR_KEYWORD: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_VAR_POSITIONAL: Final = inspect.Parameter.VAR_POSITIONAL
_KEYWORD_ONLY: Final = inspect.Parameter.KEYWORD_ONLY
_VAR_KEYWORD: Final = inspect.Parameter.VAR_KEYWORD
POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

INPUT_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""The limit of an input as JSON: the size of one queue message."""

_EMPTY: Final = inspect.Parameter.empty
_BYTE: Final = re.compile(r"(?:JSON is malformed: )?(?P<complaint>.*) \(byte (?P<byte>\d+)\)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. ``codec`` is for its whole value: ``*args`` are a tuple, ``**kwargs`` a dict.

    ``default_bytes`` is the default in canonical form, ``None`` if the parameter is required.
    """

    name: str
    kind: Any
    """One of the kinds of ``inspect.Parameter``."""
    codec: Codec[Any]
    default: Any
    default_bytes: bytes | None

    @property
    def required(self) -> bool:
        """Whether a call must pass it."""
        return self.default_bytes is None


def parameters_of(fn: Callable[..., Any], what: str, given: int = 0) -> tuple[tuple[Parameter, ...], Codec[Any]]:
    """The parameters of a function and the codec of its result; without an annotation a value is plain JSON.

    The first ``given`` parameters are left out: the caller does not pass them.

    Raises ``ConfigurationError`` if an annotation cannot be resolved or a default does not fit its own annotation, and
    ``SerializationError`` if JSON cannot carry an annotated type; both name the parameter.
    """
    if not inspect.isfunction(inspect.unwrap(fn)) and not inspect.ismethod(fn):
        raise ConfigurationError(f"{what} must be a function written with def or async def, not {told(fn)}")
    annotations = _annotations_of(fn, what)
    declared = list(inspect.signature(fn).parameters.values())[given:]
    parameters = tuple(_parameter(each, annotations.get(each.name, Any), what) for each in declared)
    return parameters, _codec(annotations.get("return", Any), f"the result of {what}")


def arrange(
    parameters: tuple[Parameter, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any], what: str
) -> tuple[Any, ...]:
    """One value for each parameter, in order, defaults filled in. Raises ``InvalidInput`` if they do not match."""
    values: list[Any] = []
    rest = dict(kwargs)
    taken = 0
    for parameter in parameters:
        name, kind = parameter.name, parameter.kind
        if kind is _VAR_POSITIONAL:
            values.append(args[taken:])
            taken = max(taken, len(args))
        elif kind is _VAR_KEYWORD:
            values.append(rest)
            rest = {}
        elif kind is not _KEYWORD_ONLY and taken < len(args):
            if kind is _POSITIONAL_OR_KEYWORD and name in rest:
                raise InvalidInput(f"{what} got argument {name!r} twice: by position and by name")
            values.append(args[taken])
            taken += 1
        elif kind is not _POSITIONAL_ONLY and name in rest:
            values.append(rest.pop(name))
        elif parameter.required:
            raise InvalidInput(f"{what} is missing argument {name!r}; {takes(parameters)}")
        else:
            values.append(parameter.default)
    if taken < len(args):
        raise InvalidInput(
            f"{what} got {len(args)} arguments by position, {len(args) - taken} too many; {takes(parameters)}"
        )
    if rest:
        raise InvalidInput(f"{what} has no parameter {', '.join(map(repr, rest))}; {takes(parameters)}")
    return tuple(values)


def takes(parameters: tuple[Parameter, ...]) -> str:
    """The parameters of a function, for the end of a message."""
    if not parameters:
        return "it takes no arguments"
    marks: dict[Any, str] = {_VAR_POSITIONAL: "*", _VAR_KEYWORD: "**"}
    return f"it takes ({', '.join(marks.get(each.kind, '') + each.name for each in parameters)})"


def arguments_of(parameters: tuple[Parameter, ...]) -> type[Struct]:
    """A class with one field for each parameter: msgspec then reads and writes a whole call at once.

    The fields have other names, because a parameter may have a name that a Struct reserves.
    """
    fields: list[Any] = []
    all_required = True
    for index, parameter in enumerate(parameters):
        all_required &= parameter.required
        default = () if all_required else (field(default_factory=_default_of(parameter)),)
        fields.append((f"p{index}", parameter.codec.shape, *default))
    names = {f"p{index}": parameter.name for index, parameter in enumerate(parameters)}
    return defstruct("Arguments", fields, rename=names, forbid_unknown_fields=True, gc=False)


def readings_of(text: bytes, parameters: tuple[Parameter, ...], what: str) -> Iterator[bytes]:
    """The ways to read JSON as arguments, the likeliest first; each is an object of arguments by name.

    Raises ``InvalidInput`` if the text is not JSON, or no way fits the number and names of the parameters.
    """
    whole = _parsed(text, what)
    only = parameters[0] if len(parameters) == 1 and parameters[0].kind not in {_VAR_POSITIONAL, _VAR_KEYWORD} else None
    as_only = b"" if only is None else jsontext.encode({only.name: Raw(text)})
    if isinstance(whole, dict):
        parts = json.decode(text, type=dict[str, Raw])
        takes_any_name = parameters and parameters[-1].kind is _VAR_KEYWORD
        if takes_any_name or parts.keys() <= {each.name for each in parameters} or only is None:
            yield _by_name(parts, parameters, what, strict=only is None)
        if only is not None:
            yield as_only
        return
    if only is not None:
        yield as_only
    if isinstance(whole, list):
        parts_in_order = tuple(json.decode(text, type=list[Raw]))
        if only is None or len(parts_in_order) <= 1:
            yield _in_order(parts_in_order, parameters, what)
    elif only is None:
        raise InvalidInput(
            f"the input of {what} should be a JSON object of arguments by name, or an array of arguments in order, "
            f"not {describe(whole)}; {takes(parameters)}"
        )


def reading_of_only(text: bytes, parameters: tuple[Parameter, ...]) -> bytes:
    """JSON that is the argument for the only parameter, by its name; for ``**kwargs`` it holds the fields."""
    (only,) = parameters
    return jsontext.encode({only.name: [Raw(text)] if only.kind is _VAR_POSITIONAL else Raw(text)})


def _parsed(text: bytes, what: str) -> Any:
    if jsontext.nests_too_deep(text):
        raise faults.too_deep(f"the input of {what}")
    try:
        return json.decode(text)
    except Exception as error:
        raise InvalidInput(
            f"the input of {what} is not JSON: {_where(text, error)}. Text goes between double quotes, as in "
            f'\'"text"\' or \'{{"name": "text"}}\''
        ) from error


def _where(text: bytes, error: Exception) -> str:
    if not text.strip():
        return "there is none"
    found = _BYTE.fullmatch(str(error))
    if found is None:
        return "it ends too early" if "truncated" in str(error) else str(error)
    # msgspec gives the place of the character, or for trailing characters the place after it.
    place = int(found["byte"]) - found["complaint"].startswith("trailing characters")
    before = text[:place].split(b"\n")
    column = len(before[-1].decode(errors="replace")) + 1
    return f"{found['complaint']} at line {len(before)}, column {column}"


def _by_name(parts: dict[str, Raw], parameters: tuple[Parameter, ...], what: str, *, strict: bool) -> bytes:
    names = {each.name for each in parameters}
    unknown = {name: part for name, part in parts.items() if name not in names}
    if parameters and parameters[-1].kind is _VAR_KEYWORD:
        name = parameters[-1].name
        known = {key: part for key, part in parts.items() if key in names}
        # As `bind` writes it, or one of the keywords themselves, which may have the same name.
        whole = known.pop(name, Raw(b"{}"))
        given = json.decode(whole, type=dict[str, Raw]) if bytes(whole).lstrip().startswith(b"{") else {name: whole}
        return jsontext.encode(known | {name: unknown | given})
    if strict and unknown:
        raise InvalidInput(f"{what} has no parameter {', '.join(map(repr, unknown))}; {takes(parameters)}")
    missing = next((each.name for each in parameters if each.required and each.name not in parts), None)
    if strict and missing is not None:
        raise InvalidInput(f"{what} is missing argument {missing!r}; {takes(parameters)}")
    return jsontext.encode(parts)


def _in_order(parts: tuple[Raw, ...], parameters: tuple[Parameter, ...], what: str) -> bytes:
    positional = [each for each in parameters if each.kind in POSITIONAL]
    named: dict[str, Any] = {each.name: part for each, part in zip(positional, parts, strict=False)}
    rest = parts[len(positional) :]
    variadic = next((each.name for each in parameters if each.kind is _VAR_POSITIONAL), None)
    if variadic is not None:
        named[variadic] = rest
    elif rest:
        raise InvalidInput(f"{what} got {len(parts)} arguments by position, {len(rest)} too many; {takes(parameters)}")
    return _by_name(named, parameters, what, strict=len(parameters) != 1)


def _parameter(found: inspect.Parameter, hint: Any, what: str) -> Parameter:
    default = found.default
    if found.kind is _VAR_POSITIONAL:
        hint, default = tuple[hint, ...], ()
    elif found.kind is _VAR_KEYWORD:
        hint, default = dict[str, hint], {}
    argument = f"parameter {found.name!r} of {what}"
    codec = _codec(hint, argument)
    if default is _EMPTY:
        return Parameter(found.name, found.kind, codec, None, None)
    encode = jsontext.canonical_by_parts if codec.unordered else jsontext.canonical
    try:
        _, default = codec.copy(default, f"the default of {argument}", INPUT_LIMIT_BYTES)
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from error
    return Parameter(found.name, found.kind, codec, default, encode(default))


def _codec(hint: Any, where: str) -> Codec[Any]:
    try:
        return codec_for(hint)
    except SerializationError as error:
        raise SerializationError(f"{where}: {error}") from error


def _annotations_of(fn: Callable[..., Any], what: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception as error:
        raise ConfigurationError(_unresolved(fn, what, error)) from error


def _unresolved(fn: Callable[..., Any], what: str, error: Exception) -> str:
    """Finds the annotation that cannot be resolved: they are tried one by one."""
    inner = inspect.unwrap(fn)
    for name, annotation in inner.__annotations__.items():
        alone = cast("Any", SimpleNamespace(__annotations__={name: annotation}))
        try:
            typing.get_type_hints(alone, globalns=inner.__globals__, include_extras=True)
        except Exception as its_error:  # noqa: BLE001 - an annotation is any expression
            place = f"the result of {what}" if name == "return" else f"parameter {name!r} of {what}"
            return (
                f"the annotation {annotation!r} of {place} cannot be resolved: {its_error}. Import or define it at "
                f"module level, outside `if TYPE_CHECKING:` and outside functions: hints are read at run time"
            )
    return f"the annotations of {what} cannot be resolved: {error}"


def _default_of(parameter: Parameter) -> Callable[[], Any]:
    def default() -> Any:
        # A Struct requires a default after a default, but a keyword may be required.
        if parameter.required:
            raise ValueError(f"missing argument {parameter.name!r}")
        return parameter.default

    return default
