"""Lines of metrics from workers of one's own. Functions on Lambda write them by themselves (``lambda_``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.metrics import MetricLines, Write, to_standard_output
from holdfast.ports import Metered, Used

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Home
    from holdfast.telemetry import Telemetry


class Watched(Protocol):
    """The app, as this module sees it."""

    name: str
    telemetry: Telemetry

    @property
    def clock(self) -> Clock: ...

    def runtime(self) -> Runtime: ...


def write_metrics(app: Watched, write: Write = to_standard_output) -> None:
    """Have the workers of this app in this process write a line of metrics once a minute.

    The lines are in CloudWatch's embedded metric format: the page "Deploying to AWS" lists them. They go to standard
    output, for an agent or a container's log driver to take, or to ``write``, which is called on the event loop and
    must not block. Not for functions on Lambda, which do so by themselves.

        app = hf.App("shop")
        hf.write_metrics(app)
    """
    app.telemetry.subscribe(MetricLines(lambda: metered_of(app.runtime().home, app.name), app.clock, write))


def metered_of(home: Home, name: str) -> Metered:
    """What the home has used; of one that nobody pays for, nothing, under the app's name."""
    return home.metered or Metered(f"Holdfast/{name}", Used)
