"""Text for output: without control characters, passwords of URLs, and messages of undeclared errors."""

from __future__ import annotations

import json
import re
import shlex
import sys
import traceback
from typing import TYPE_CHECKING, Final

from holdfast.deferred import LazyModule

if TYPE_CHECKING:
    import pathlib
else:  # few processes tell where code is
    pathlib = LazyModule("pathlib", globals())

ONE_BYTE: Final = 0xFF
ASTRAL: Final = 0x10000
WORD: Final = re.compile(r"[^\s'\"]+")
SCHEME: Final = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*:/+")
USER: Final = re.compile(r"[^/?#:@]*")
SECRET_OPTION: Final = re.compile(
    r"(?P<before>[?&][\w-]*(?:password|passwd|pwd|secret|token)=)(?:[^\s&#'\"\\]+|\\.)*", re.IGNORECASE
)
"""Its value ends with the surrounding text, not at an escaped quotation mark, as in JSON."""
HIDDEN: Final = "***"
CALLBACK_TOKEN: Final = re.compile(r"\bhf(?:1|2\.[A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[0-9a-f]{64}\b")
"""What a callback token looks like: its holder may answer the callback, so none is ever shown."""


def printable(text: str) -> str:
    r"""The text on one line, with an escape for every character that a terminal may act on: control characters, C1,
    those that change the direction of writing, and other invisible ones.

    >>> print(printable("a\x1b[31m\u202eb\u009bc"))
    a\x1b[31m\u202eb\x9bc
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else _escaped(each) for each in text)


def printable_lines(text: str) -> str:
    """As ``printable``, but the text keeps its lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    r"""As ``printable``, for JSON: its meaning stays the same.

    >>> print(printable_json('{"name": "a\u202eb\U000e0001"}'))
    {"name": "a\u202eb\udb40\udc01"}
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if code <= ONE_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < ASTRAL else f"\\U{code:08x}"


def told_url(url: str) -> str:
    """A URL for messages: without its password, and without options that are secrets.

    >>> told_url("redis://ann:pa@ss@cache:6379/0?password=x&db=1")
    'redis://ann:***@cache:6379/0?password=***&db=1'
    """
    told = WORD.sub(_without_password, url) if "@" in url and ":/" in url else url
    return SECRET_OPTION.sub(rf"\g<before>{HIDDEN}", told) if "=" in told else told


def _without_password(word: re.Match[str]) -> str:
    """The text between a user's name and the last ``@`` is a password, because not every password is escaped as it
    should be. No character is read more than a few times, however long the text is.
    """
    text = word[0]
    end = text.rfind("@")
    for scheme in SCHEME.finditer(text, 0, max(end, 0)):
        user = USER.match(text, scheme.end(), end)
        if user is not None and user.end() < end and text[user.end()] == ":":
            return f"{text[: user.end()]}:{HIDDEN}{text[end:]}"
    return text


def masked(text: str) -> str:
    """The text without callback tokens and passwords of URLs.

    >>> masked(f"https://ann:pass@shop/hf1.eyJ9.{'0' * 64}/")
    'https://ann:***@shop/hf1.(token)/'
    """
    return told_url(CALLBACK_TOKEN.sub("hf1.(token)", text) if "hf" in text else text)


def shell_line(command: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
    """A line for the shell that calls ``holdfast`` with any arguments, also such that look like options
    (https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap12.html, guideline 10).

    >>> shell_line("signal", "order", "a b", "paid")
    "holdfast signal order 'a b' paid"
    >>> shell_line("callback answer", "order", "-1", "parcel#0", options=("--value", "JSON"))
    "holdfast callback answer --value JSON -- order -1 'parcel#0'"
    """
    dashed = any(each.startswith("-") for each in arguments)
    words = (*options, "--", *arguments) if dashed else (*arguments, *options)
    return shlex.join(["holdfast", *command.split(), *words])


def told_place(file: str, line: int) -> str:
    """A line of code for messages: its file relative to the folder from which it is imported, or to the current one. Of
    any other file only the name is shown: never its place on this machine. Bytes of its name that are no text are
    escaped, since what is recorded is UTF-8.

    >>> told_place("/srv/secret/shop.py", 7)
    'shop.py:7'
    """
    return f"{_told_file(file)}:{line}".encode(errors="backslashreplace").decode()


def _told_file(file: str) -> str:
    path = pathlib.Path(file)
    if not path.is_absolute():
        return file
    folders = [
        folder for folder in map(pathlib.Path, [*sys.path, _current_folder()]) if folder.name and folder in path.parents
    ]
    nearest = max(folders, key=lambda folder: len(folder.parts), default=path.parent)
    return path.relative_to(nearest).as_posix()


def _current_folder() -> str:
    try:
        return str(pathlib.Path.cwd())
    except OSError:  # it has been deleted
        return ""


def frames_of(error: BaseException) -> str:
    """The origin of an error: its type, its frames, and those of its causes; never their messages.

    A message may contain data: the number of a card, or lines that look like another entry of the log.
    """
    told: list[str] = []
    seen: set[int] = set()
    standing: BaseException | None = error
    while standing is not None and id(standing) not in seen:
        seen.add(id(standing))
        frames = "".join(traceback.format_tb(standing.__traceback__)).rstrip("\n")
        told.append(type(standing).__name__ + (f" at\n{frames}" if frames else ""))
        standing = standing.__cause__ or (None if standing.__suppress_context__ else standing.__context__)
    return printable_lines("\nafter ".join(told))
