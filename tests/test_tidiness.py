"""The style, enforced: small modules, short functions, no grab bags, no loose ends, a reason beside every exception.

Each rule is a function from a source to the complaints about it. One test applies every rule to the whole project;
another shows for every rule a sample that it complains about and one that it lets pass.
"""

from __future__ import annotations

import ast
import asyncio
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest
from tests.parsing import parsed

ROOT = Path(__file__).parents[1]
FOLDERS = (".ci", ".github", "benchmarks", "docs", "examples", "src", "tests", "tools")
HIDDEN_FILES = (".editorconfig", ".gitignore")
TEXT_SUFFIXES = (
    "",
    ".css",
    ".html",
    ".ini",
    ".j2",
    ".js",
    ".json",
    ".md",
    ".py",
    ".sh",
    ".sql",
    ".toml",
    ".txt",
    ".yml",
)

MODULE_LINES = 400
FUNCTION_LINES = 50
PUBLIC_METHODS = 15
REASON_WORDS = 3

GRAB_BAGS = frozenset({"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"})
PRINTERS = ("src/holdfast/cli/", "src/holdfast/demo", "src/holdfast/testing/")
UNSAFE_MODULES = frozenset({"cloudpickle", "dill", "marshal", "pickle", "shelve"})
UNSAFE_CALLS = frozenset({"eval", "exec"})

# Put together from parts, so that this file keeps its own rules.
HOSTS = [
    rf"{name}\.{domain}"
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "(org|com)"),
        ("yarnpkg", "com"),
        ("debian", "org"),
        ("golang", "org"),
        ("crates", "io"),
    )
]
REGISTRY_HOST = re.compile(rf"\b({'|'.join(HOSTS)})\b")
LOOSE_END = re.compile(rf"\b({'|'.join(('ODOT'[::-1], 'EMXIF'[::-1], 'X' * 3))})\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root)/")
SCRATCH_PATH = re.compile(r"(?<![\w.])/(tmp)/")

RUFF_EXCEPTION = re.compile(r"""\s*["'][A-Z]+\d*["'],\s*#\s*(?P<reason>.+)""")
EXEMPTION = re.compile(
    r"#\s*(noqa|type: ignore|pyright: ignore|pragma: no \w+)"
    r"(\[[\w, -]*\]|: [A-Z]+\d+(, ?[A-Z]+\d+)*)?[ #:–-]*(?P<reason>.*)"
)


@dataclass(frozen=True)
class Source:
    """A file of the project: its path from the root, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return parsed(self.text, self.path)

    def lines(self) -> Iterator[tuple[int, str]]:
        return enumerate(self.text.splitlines(), start=1)

    def at(self, node: ast.stmt | ast.expr) -> str:
        return f"{self.path}:{node.lineno}"


Rule = Callable[[Source], Iterator[str]]
RULES: dict[Rule, str] = {}
"""Each rule, and the pattern of the paths it is for."""


def rule(paths: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES[function] = paths
        return function

    return register


CODE = r"src/.*\.py"
PYTHON = r".*\.py"
EVERYTHING = r".*"


# ── Pythons ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@rule(PYTHON)
def archives_are_unpacked_as_the_oldest_python_can(source: Source) -> Iterator[str]:
    """Filters came with 3.11.4; Debian 12 has 3.11.2."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or name_of(node.func) not in {"extract", "extractall"}:
            continue
        if any(keyword.arg == "filter" for keyword in node.keywords):
            yield f"{source.at(node)}: Python 3.11.2 has no filters; let tar unpack it"


# ── Sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@rule(CODE)
def modules_are_small(source: Source) -> Iterator[str]:
    count = len(source.text.splitlines())
    if count > MODULE_LINES:
        yield f"{source.path}: {count} lines, over {MODULE_LINES}; split it by concept"


@rule(CODE)
def functions_are_short(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, Function) and length(node) > FUNCTION_LINES:
            yield f"{source.at(node)} {node.name}: {length(node)} lines without its docstring, over {FUNCTION_LINES}"


ASYNCIO_LOOP = frozenset(dir(asyncio.AbstractEventLoop))
"""What an event loop must have whether it likes it or not."""


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


@rule(CODE)
def classes_have_few_public_methods(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            imposed = ASYNCIO_LOOP if any("EventLoop" in ast.unparse(base) for base in node.bases) else frozenset()
            methods = (each for each in node.body if isinstance(each, Function) and is_public(each))
            count = len({each.name for each in methods if not is_property(each)} - imposed)
            if count > PUBLIC_METHODS:
                yield f"{source.at(node)} {node.name}: {count} public methods, over {PUBLIC_METHODS}"


# ── Names and documentation ─────────────────────────────────────────────────────────────────────────────────────────


@rule(CODE)
def no_module_is_a_grab_bag(source: Source) -> Iterator[str]:
    for part in Path(source.path).with_suffix("").parts:
        if GRAB_BAGS & set(part.split("_")):
            yield f"{source.path}: {part!r} does not say what is in it; name the concept"


@rule(CODE)
def public_names_are_documented(source: Source) -> Iterator[str]:
    tree = source.tree
    if tree.body and not ast.get_docstring(tree):
        yield f"{source.path}:1 the module has no docstring"
    for node in tree.body:
        if isinstance(node, ast.ClassDef | Function) and is_public(node) and not ast.get_docstring(node):
            if any(name_of(each) in {"overload", "singledispatch"} for each in node.decorator_list):
                continue
            yield f"{source.at(node)} {node.name} has no docstring"


# ── What is not done ────────────────────────────────────────────────────────────────────────────────────────────────


@rule(CODE)
def only_the_command_line_prints(source: Source) -> Iterator[str]:
    if not source.path.startswith(PRINTERS):
        yield from (f"{source.at(call)} prints" for call in calls_of({"print"}, source.tree))


@rule(CODE)
def data_is_never_code(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(str(module)):
                modules = [module]
            case _:
                continue
        for module in modules:
            if module.split(".")[0] in UNSAFE_MODULES:
                yield f"{source.at(node)} imports {module} (G12)"
    yield from (f"{source.at(call)} calls {name_of(call.func)} (G12)" for call in calls_of(UNSAFE_CALLS, source.tree))


@rule(EVERYTHING)
def no_loose_ends(source: Source) -> Iterator[str]:
    for number, line in source.lines():
        if found := LOOSE_END.search(line):
            yield f"{source.path}:{number} {found[0]}: do it, or file an issue"


@rule(EVERYTHING)
def no_paths_of_one_machine(source: Source) -> Iterator[str]:
    for number, line in source.lines():
        if MACHINE_PATH.search(line) or (source.path.endswith(".md") and SCRATCH_PATH.search(line)):
            yield f"{source.path}:{number} names a path of one machine: {line.strip()}"


@rule(EVERYTHING)
def no_registry_hosts(source: Source) -> Iterator[str]:
    for number, line in source.lines():
        if found := REGISTRY_HOST.search(line):
            yield f"{source.path}:{number} names the host of a package registry: {found[0]}"


PROMISES = {
    "aws": "backends/aws",
    "dashboard": "dashboard",
    "dynamodb": "backends/aws",
    "lambda": "backends/aws",
    "postgres": "backends/postgres",
    "redis": "backends/redis",
    "serverless": "backends/aws",
    "sqlite": "backends/sqlite",
    "workflows": "workflows",
}
"""Words that promise a feature to whoever reads about the package, and the folder that keeps the promise."""


@rule(r"pyproject\.toml")
def the_metadata_promises_only_what_is_there(source: Source) -> Iterator[str]:
    for number, line in source.lines():
        if line.startswith(("description = ", "keywords = ")):
            for word in re.findall(r"\w+", line.lower()):
                if word in PROMISES and not (ROOT / "src/holdfast" / PROMISES[word]).exists():
                    yield f"{source.path}:{number} promises {word}, and there is no {PROMISES[word]}"


# ── Reasons ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@rule(r"pyproject\.toml")
def every_ruff_exception_has_its_reason(source: Source) -> Iterator[str]:
    table, in_exceptions = "", False
    for number, line in source.lines():
        if line.startswith("["):
            table = line.strip("[]")
        elif (table == "tool.ruff.lint" and re.match(r"(extend-)?ignore = ", line)) or (
            table.startswith("tool.ruff.lint") and table.endswith("per-file-ignores") and line.startswith('"')
        ):
            in_exceptions = line.endswith("[")
            if not in_exceptions:
                yield f"{source.path}:{number} write each exception on a line of its own, with its reason"
        elif line.startswith("]"):
            in_exceptions = False
        elif in_exceptions and not has_reason(RUFF_EXCEPTION.fullmatch(line)):
            yield f"{source.path}:{number} an exception without its reason: {line.strip()}"


@rule(CODE)
def every_exemption_in_the_code_has_its_reason(source: Source) -> Iterator[str]:
    above = ""
    for number, line in source.lines():
        found = EXEMPTION.search(line)
        if found and not has_reason(found) and not above.startswith("# "):
            yield f"{source.path}:{number} say why, at its end or in a comment above: {line.strip()}"
        above = line.strip()


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Function = ast.FunctionDef | ast.AsyncFunctionDef


def has_reason(found: re.Match[str] | None) -> bool:
    return found is not None and len(found["reason"].split()) >= REASON_WORDS


def length(function: Function) -> int:
    """The lines of a function without its docstring: a long contract is no long function."""
    body_lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return body_lines
    return body_lines - ((function.body[0].end_lineno or 0) - function.body[0].lineno + 1)


def is_public(node: ast.ClassDef | Function) -> bool:
    return not node.name.startswith("_")


def name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def calls_of(names: frozenset[str] | set[str], tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


@cache
def project_sources() -> Sequence[Source]:
    """Every text file that is meant to be committed."""
    return tuple(committed())


def committed() -> Iterator[Source]:
    paths = [path for path in ROOT.iterdir() if not path.name.startswith(".") or path.name in HIDDEN_FILES]
    for folder in FOLDERS:
        paths += (ROOT / folder).rglob("*")
    for path in sorted(paths):
        inside = path.relative_to(ROOT)
        generated = any(part.startswith((".", "__pycache__")) for part in inside.parts[1:])
        if path.is_file() and path.suffix in TEXT_SUFFIXES and not generated:
            yield Source(inside.as_posix(), path.read_text(encoding="utf-8"))


# ── The tests ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("complaints_of", RULES, ids=lambda each: each.__name__)
def test_the_project_keeps_the_rule(complaints_of: Rule) -> None:
    sources = [source for source in project_sources() if re.fullmatch(RULES[complaints_of], source.path)]
    assert sources, "a rule that judges nothing proves nothing"
    complaints = [complaint for source in sources for complaint in complaints_of(source)]
    assert not complaints, "\n" + "\n".join(complaints)


def function(lines: int) -> str:
    return "def f():\n" + "    pass\n" * (lines - 1)


def method(lines: int) -> str:
    return "class C:\n" + textwrap.indent(function(lines), "    ")


def methods(count: int) -> str:
    return "class C:\n" + "".join(f"    def m{number}(self): ...\n" for number in range(count))


def ignoring(line: str) -> str:
    return f"[tool.ruff.lint]\nignore = [\n{line}\n]\n"


def ignoring_in_files(line: str) -> str:
    return f'[tool.ruff.lint.per-file-ignores]\n"tests/**" = [\n{line}\n]\n'


LONG_CONTRACT = 'def f():\n    """One line.\n' + "\n" * FUNCTION_LINES + '    """\n    return 1\n'
LOOSE = "# " + "ODOT"[::-1] + ": later"
HOST = "https://files." + "pythonhosted" + ".org/simple"
HOME = "cd /wo" + "rk/main"
SCRATCH = "cd /t" + "mp/x"
MODULE = "src/holdfast/kernel/sample.py"

SAMPLES: list[tuple[Rule, str, str, str]] = [
    # rule, path, what it complains about, what it lets pass
    (archives_are_unpacked_as_the_oldest_python_can, MODULE, "t.extractall(p, filter='data')", "t.extractall(p)"),
    (modules_are_small, MODULE, "pass\n" * (MODULE_LINES + 1), "pass\n" * MODULE_LINES),
    (functions_are_short, MODULE, function(FUNCTION_LINES + 1), function(FUNCTION_LINES)),
    (functions_are_short, MODULE, "async " + function(FUNCTION_LINES + 1), LONG_CONTRACT),
    (functions_are_short, MODULE, method(FUNCTION_LINES + 1), method(FUNCTION_LINES)),
    (classes_have_few_public_methods, MODULE, methods(PUBLIC_METHODS + 1), methods(PUBLIC_METHODS)),
    (public_names_are_documented, MODULE, "x = 1\n", '"""What it is for."""\nx = 1\n'),
    (public_names_are_documented, MODULE, '"""M."""\ndef f(): ...\n', '"""M."""\ndef _f(): ...\n'),
    (public_names_are_documented, MODULE, '"""M."""\nclass C: ...\n', '"""M."""\nclass C:\n    """C."""\n'),
    (only_the_command_line_prints, MODULE, "def f(): print(1)", "def f(): self.print(1)"),
    (data_is_never_code, MODULE, "import pickle", "import json"),
    (data_is_never_code, MODULE, "def f():\n    from pickle import loads", "from holdfast import pickled"),
    (data_is_never_code, MODULE, "x = eval('1')", "x = model.eval()"),
    (data_is_never_code, MODULE, "exec(code)", "cursor.exec(code)"),
    (no_loose_ends, "docs/a.md", LOOSE, "a to-do list"),
    (no_paths_of_one_machine, MODULE, HOME, "cd ./work/main; cd a/work/b"),
    (no_paths_of_one_machine, "docs/a.md", SCRATCH, "cd example"),
    (no_registry_hosts, "docs/a.md", HOST, "pip takes it from PyPI"),
    (
        the_metadata_promises_only_what_is_there,
        "pyproject.toml",
        'description = "Durable workflows on Postgres."',
        'keywords = ["workflows", "sqlite"]',
    ),
    (every_ruff_exception_has_its_reason, "pyproject.toml", ignoring('"D1",'), ignoring('"D1",  # a test needs none')),
    (every_ruff_exception_has_its_reason, "pyproject.toml", ignoring('"D1",  # why'), "[project]\nignore = ['D1']"),
    (
        every_ruff_exception_has_its_reason,
        "pyproject.toml",
        '[tool.ruff.lint]\nignore = ["D1"]',
        '[tool.ruff.lint]\nselect = ["D1"]',
    ),
    (
        every_ruff_exception_has_its_reason,
        "pyproject.toml",
        ignoring_in_files('    "S101",'),
        ignoring_in_files('    "S101",  # pytest rewrites its asserts'),
    ),
    (
        every_exemption_in_the_code_has_its_reason,
        MODULE,
        "x  # noqa: S1, S2",
        "x  # noqa: S1, S2 - parameters only, no",
    ),
    (every_exemption_in_the_code_has_its_reason, MODULE, "x  # noqa", "x  # an ordinary comment"),
    (
        every_exemption_in_the_code_has_its_reason,
        MODULE,
        "x  # type: ignore[arg-type]",
        "x  # type: ignore[arg-type]  # the stub is wrong",
    ),
    (
        every_exemption_in_the_code_has_its_reason,
        MODULE,
        "x  # pragma: no cover",
        "# only ever runs on Windows\nx  # pragma: no cover",
    ),
]

NAMES = [
    ("src/holdfast/utils.py", "src/holdfast/utility_costs.py"),
    ("src/holdfast/sql_helpers.py", "src/holdfast/helpfulness.py"),
    ("src/holdfast/common/x.py", "src/holdfast/commons.py"),
    ("src/holdfast/session_manager.py", "src/holdfast/management.py"),
]


@pytest.mark.parametrize(
    ("complaints_of", "path", "bad", "good"),
    SAMPLES,
    ids=[f"{each[0].__name__}-{number}" for number, each in enumerate(SAMPLES)],
)
def test_a_rule_can_fail(complaints_of: Rule, path: str, bad: str, good: str) -> None:
    assert list(complaints_of(Source(path, bad)))
    assert not list(complaints_of(Source(path, good)))


@pytest.mark.parametrize(("bad", "good"), NAMES)
def test_the_rule_of_names_can_fail(bad: str, good: str) -> None:
    assert list(no_module_is_a_grab_bag(Source(bad, "")))
    assert not list(no_module_is_a_grab_bag(Source(good, "")))


def test_the_command_line_may_print() -> None:
    assert not list(only_the_command_line_prints(Source("src/holdfast/cli/show.py", "print(1)")))


def test_every_rule_has_its_sample() -> None:
    assert RULES.keys() == {sample[0] for sample in SAMPLES} | {no_module_is_a_grab_bag}


def test_files_that_are_not_committed_are_not_judged() -> None:
    paths = {source.path for source in project_sources()}
    assert {"pyproject.toml", "Makefile", ".ci/run", ".gitignore", "tests/test_tidiness.py"} <= paths
    assert not [path for path in paths if "__pycache__" in path or path.startswith((".venv", ".git/"))]
