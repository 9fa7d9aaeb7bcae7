"""Writes the reference of the public API as HTML: ``python -m tools.reference build/reference``.

It is made from docstrings and type hints by pdoc. Only what is listed in an ``__all__``, or in ``HANDED_OUT``, is on a
page; a name is shown where users import it from, and not where it is defined.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from jinja2 import pass_context
from markupsafe import Markup
from pdoc import render
from pdoc.doc import Class, Function, Module
from pdoc.doc_ast import walk_tree

from holdfast.errors import ConfigurationError

RETURNED = "returned"
MODULES = ("holdfast", "holdfast.http", "holdfast.infra", "holdfast.moving", "holdfast.otel", "holdfast.testing")

HANDED_OUT = {
    "actors.admin.handle": "ActorHandle ActorStatus Message TimerStatus",
    "actors.admin.listing": "ActorPage ParkedMessage ParkedPage",
    "actors.timers": "Timer",
    "client": "Selection",
    "clock": "Clock",
    "http.asgi": "AsgiApi",
    "http.messages": "Loopback Remote Vouched",
    "messaging.publishing": "Outbox",
    "patterns.batch": "BatchResponse",
    "patterns.blobs": "BlobShelf",
    "patterns.cached": "Cached",
    "patterns.idempotent": "KeyRecords",
    "patterns.leader": "Leader",
    "patterns.lease": "Lease Semaphore WithLease",
    "patterns.session": "Sessions",
    "ports": "Home",
    "shared": "Shared",
    "runtime.lambda_": "LambdaHandler",
    "runtime.sync": "SyncBridge",
    "runtime.worker": "Worker",
    "workflows.saga": "Saga",
}
"""What calls of the API return, by the module that defines it: documented, though users do not import it."""

DOTTED = re.compile(r"\bholdfast[\w.]+|'Connect'")
DOT = r"(?:\.|</span><span class=\"o\">\.</span><span class=\"n\">)"
NOISE = re.compile(
    rf"\bholdfast(?:{DOT}|[a-z_0-9])+(?=[A-Z])|\b(?:typing|datetime){DOT}|<span class=\"o\">~</span>|~(?=[A-Z])"
)
"""In a signature: where an internal class is defined, modules that all readers know, and marks of type variables."""


def write_reference(into: Path) -> None:
    """Write a page for each module, an index and what the search needs."""
    warnings.filterwarnings("ignore", "Error parsing type annotation Connect")  # of constructors that are left out
    pages = {module.__name__: page_of(module) for module in (*map(loaded, MODULES), handed_out())}
    render.configure(docformat="markdown", show_source=False)
    render.env.filters["linkify"] = shortened(render.env.filters["linkify"])
    files = {f"{name.replace('.', '/')}.html": render.html_module(page, pages) for name, page in pages.items()}
    files |= {"index.html": render.html_index(pages), "search.js": render.search_index(pages)}
    for name, text in files.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(text, encoding="utf-8")


def loaded(name: str) -> ModuleType:
    """The module, with all its public names loaded but those that need AWS CDK, if that is not installed."""
    module = import_module(name)
    for each in list(module.__all__):
        try:
            setattr(module, each, getattr(module, each))
        except ConfigurationError:
            module.__all__.remove(each)
    return module


def handed_out() -> ModuleType:
    """A module that does not exist, for the classes that calls return."""
    module = ModuleType(RETURNED, "What calls return: classes that are neither made nor imported by users.")
    for path, names in HANDED_OUT.items():
        for name in names.split():
            setattr(module, name, getattr(import_module(f"holdfast.{path}"), name))
    module.__all__ = sorted(name for names in HANDED_OUT.values() for name in names.split())
    return module


def page_of(module: ModuleType) -> Module:
    """The page of a module: what is in its ``__all__``."""
    page = Module(module)
    for variable in page.variables:
        variable.docstring = variable.docstring or docstring_of(variable.name)
    for cls in page.classes:
        adopt_inherited(cls)
        bases = [base for base in cls.bases if not is_internal(".".join(base[:2]))]
        cls.bases = [(module, name, NOISE.sub("", text)) for module, name, text in bases]
        if issubclass(cls.obj, msgspec.Struct):
            cls.members["__init__"] = constructor(cls)
        if "__init__" in cls.members and not is_made_by_users(cls):
            del cls.members["__init__"]
    return page


def docstring_of(name: str) -> str:
    """What is written below a variable where it is defined."""
    modules = (module for path, module in sys.modules.items() if path.startswith("holdfast") and name in vars(module))
    return next((text for module in modules if (text := walk_tree(module).var_docstrings.get(name))), "")


def adopt_inherited(cls: Class) -> None:
    """Show what a class inherits from internal ones as its own: they have no page."""
    for member in cls.members.values():
        if member.taken_from[0].startswith("holdfast.") and member.name != "__init__":
            member.taken_from = (member.modulename, member.qualname)


def constructor(cls: Class) -> Function:
    """How a struct is made: its fields are parameters, with their defaults."""

    def make(self: object) -> None: ...

    own, fields = inspect.signature(make), inspect.signature(cls.obj)
    make.__signature__ = fields.replace(parameters=[*own.parameters.values(), *fields.parameters.values()])
    make.__module__ = cls.obj.__module__
    qualname = f"{cls.qualname}.__init__"
    return Function(cls.modulename, qualname, make, (cls.modulename, qualname))


def is_made_by_users(cls: Class) -> bool:
    """Whether users call the class itself. The app makes those of ``hf`` whose constructor takes internal classes."""
    if cls.modulename == RETURNED or getattr(cls.obj, "_is_protocol", False):
        return False
    types = " ".join(map(str, cls.members["__init__"].signature.parameters.values()))
    return cls.modulename != "holdfast" or not any(map(is_internal, DOTTED.findall(types)))


def is_internal(path: str) -> bool:
    """Whether a class, as an annotation has it, is on no page."""
    return path.startswith(("holdfast.", "'")) and path.rpartition(".")[2] not in documented()


@cache
def documented() -> frozenset[str]:
    """The names that are on a page."""
    listed = [name for module in MODULES for name in import_module(module).__all__]
    return frozenset(listed) | frozenset(" ".join(HANDED_OUT.values()).split())


def shortened(linkify: Callable[..., Markup]) -> Callable[..., Markup]:
    """The filter that makes links, followed by one that makes signatures shorter."""

    @pass_context
    def links(context: Any, code: str, **options: Any) -> Markup:
        html = linkify(context, code, **options)
        return Markup(NOISE.sub("", html)) if options.get("shorten", True) else html  # noqa: S704  made by pdoc

    return links


if __name__ == "__main__":
    write_reference(Path(sys.argv[1]))
