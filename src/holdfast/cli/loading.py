"""Finding the app that ``MODULE:APP`` names, as uvicorn does: imported, with the current directory on the path."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from types import ModuleType

import click

from holdfast.app import App
from holdfast.errors import ConfigurationError, HoldfastError


def load_app(name: str) -> App:
    """The app called ``name``, for example ``shop:app`` or ``company.shop.main:app``.

    Raises ``click.UsageError`` that says which part of the name is wrong, and what exists instead;
    ``ConfigurationError`` for a module that exists and cannot be imported.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise click.UsageError(f"{name!r} names no app. Write MODULE:APP, for example shop:app for 'app' in shop.py")
    if module_name.endswith(".py") or os.sep in module_name:
        guess = module_name.removesuffix(".py").replace(os.sep, ".").strip(".")
        raise click.UsageError(f"{module_name!r} is a file; give the module's name: {guess}:{attribute}")
    module = _import(module_name)
    found: object = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise click.UsageError(f"{module_name} has no {attribute!r}; {_apps_in(module)}") from None
    if not isinstance(found, App):
        kind = type(found).__name__
        raise click.UsageError(f"{name} is a {kind}, not a holdfast.App; {_apps_in(module)}")
    return found


def _import(name: str) -> ModuleType:
    folder = os.getcwd()  # noqa: PTH109 - sys.path holds texts
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return import_module(name)
    except HoldfastError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise click.UsageError(
                f"there is no module {error.name!r} in {folder} or on Python's path. Run the command in the folder "
                "that holds it, or set PYTHONPATH"
            ) from error
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> ConfigurationError:
    """The user's module raised: say what and where, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    where = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    if isinstance(error, SyntaxError):
        where = f" at {error.filename}:{error.lineno}"
    told = error.msg if isinstance(error, SyntaxError) else str(error)
    return ConfigurationError(
        f"importing {name} failed: {type(error).__name__}: {told}{where}. --debug shows the traceback"
    )


def _apps_in(module: ModuleType) -> str:
    names = [f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, App)]
    return f"it has: {', '.join(names)}" if names else "it has no App: make one with app = holdfast.App('name')"
