"""What a surface was asked and what it answered, in order, compared with what was recorded.

``HOLDFAST_RECORD_ANSWERS=1 pytest tests/commands/test_answers.py`` records anew: then look at the difference.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "answers"
RECORD_VARIABLE = "HOLDFAST_RECORD_ANSWERS"

CHANGING = (
    # what differs from run to run, what stands in its place
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "<time>"),
    (r"\bhf1\.[\w.=…-]+", "<token>"),
    (r"\bp#i#[0-9a-z#-]+", "<place>"),
    (r"^[\w-]{80,}$", "<cursor>"),
    (r"\b[0-9a-f]{12,}\b", "<id>"),
    (r"\b[\d.]+ (ms|s|m \d\d s)\b", "<duration>"),
    (r"\b(READY|RUNNING|SUSPENDED)\b", "<open>"),
    (r'File "[^"]*/', 'File "<folder>/'),
    (r'"traceback": "([^"\\]|\\.)*"', '"traceback": "<any>"'),
    (r'"(owner|version|owner_alive|took_ms)": ("[^"]*"|null|true|false|\d+)', r'"\1": "<any>"'),
    (r'"waits": \[[^\]]*\]', '"waits": "<any>"'),
    (r"\n  (owner|version|waits for) [^\n]*", ""),
    (r"<open>  \d+", "<open>  <version>"),
    (r"(of|from) process \S+", r"\1 process <any>"),
    (r" {3,}", "  "),
)
CHANGING_FIELDS = frozenset({"version", "owner", "took_ms", "due_at", "waits"})


def steady(told: Any) -> Any:
    """What was told, without what differs from run to run."""
    match told:
        case str():
            for pattern, instead in CHANGING:
                told = re.sub(pattern, instead, told)
            return told
        case dict():
            return {name: "<any>" if name in CHANGING_FIELDS else steady(each) for name, each in told.items()}
        case list():
            return [steady(each) for each in told]
    return told


class Transcript:
    """The questions and answers of one surface."""

    def __init__(self, surface: str) -> None:
        self.file = FOLDER / f"{surface}.json"
        self.told: list[dict[str, Any]] = []

    def add(self, asked: str, answered: Any) -> None:
        self.told.append(steady({"asked": asked, "answered": answered}))

    def check(self) -> None:
        """Raise unless the same was asked, and answered, as when it was recorded."""
        if os.environ.get(RECORD_VARIABLE):
            self.file.write_text(json.dumps(self.told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        recorded = json.loads(self.file.read_text(encoding="utf-8"))
        for now, then in zip(self.told, recorded, strict=True):
            assert now == then, f"{now} is answered now, and was {then}"
