"""What is shown when a page cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.dashboard.rendering import render, render_bare
from holdfast.texts import masked

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit
    from holdfast.http.problems import Problem

HEADINGS = {
    400: "That cannot be done",
    403: "You may not do that",
    404: "Not found",
    409: "It has changed meanwhile",
    503: "The store does not answer",
    504: "That took too long",
}


def trouble(visit: Visit | None, problem: Problem, root: str, title: str) -> Response:
    """A problem as a page: what happened, and what to do."""
    heading = HEADINGS.get(problem.status, "Something went wrong")
    told = {"heading": heading, "detail": masked(problem.detail), "problem_status": problem.status}
    if visit is None:
        response = render_bare(root, title, "trouble_bare.html", problem.status, **told)
    else:
        response = render(visit, "trouble.html", problem.status, **told)
    for name, value in problem.headers:
        response.headers[name] = value
    return response
