"""Lines of metrics from workers that users run. Functions on Lambda write them without being told (``lambda_``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.metrics import MetricLines, Write, to_standard_output
from holdfast.watched import Metered, Used

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Home
    from holdfast.telemetry import Telemetry


class Watched(Protocol):
    """The app, as this module sees it."""

    telemetry: Telemetry

    @property
    def name(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    def runtime(self) -> Runtime: ...


def write_metrics(app: Watched, write: Write = to_standard_output) -> None:
    """Make this app's workers in this process write a line of metrics once a minute.

    The lines are in CloudWatch's embedded metric format: the page "Deploying to AWS" lists them. They go to standard
    output, for an agent or a container's log driver, or to ``write``, which is called on the event loop and must not
    block. Functions on Lambda need no call: they write metrics already.

        app = hf.App("shop")
        hf.write_metrics(app)
    """
    app.telemetry.subscribe(MetricLines(lambda: metered_of(app.runtime().home, app.name), app.clock, write))


def metered_of(home: Home, name: str) -> Metered:
    """What the home has used. A home that is not billed has used nothing, under the app's name."""
    return home.metered or Metered(f"Holdfast/{name}", Used)
