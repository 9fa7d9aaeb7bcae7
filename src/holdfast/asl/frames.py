"""Where states run: the run of an execution, and in it the frames of the machine, of branches and of iterations."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.asl.definition import Processor, State
from holdfast.asl.events import History, Trail
from holdfast.asl.quotas import Quota
from holdfast.asl.randomness import Randomness
from holdfast.replay.naming import escaped

if TYPE_CHECKING:
    from holdfast.asl.orders import MapOrder
    from holdfast.asl.resources import Limits
    from holdfast.asl.visit import Visit
    from holdfast.replay.activation import Activation

CONTINUE_AFTER_OPERATIONS: Final = 500
CONTINUE_AFTER_STATES: Final = 5_000
"""After how many operations, or states, of one run the execution continues as new, at the next state of the machine
itself: so a replay is bounded, however long a machine loops."""


class Cursor(Struct, frozen=True, omit_defaults=True):
    """All that a machine is between two states, or two attempts of one, while no branch is open.

    ``input`` and ``variables`` are JSON text, so that the order of their fields is kept. ``attempts`` counts by
    retrier. ``entered_ms`` and ``entered_event`` are set if the state was entered already.
    """

    state: str
    input: str
    variables: str = "{}"
    events: int = 0
    last_event: int = 0
    redrives: int = 0
    started_ms: int = 0
    attempts: tuple[int, ...] = ()
    retries: int = 0
    entered_ms: int = 0
    entered_event: int = 0


class Frame(Struct, frozen=True):
    """States that run one after the other. ``path`` names them in the identities of operations."""

    processor: Processor
    path: str
    variables: Mapping[str, Any]
    context: Mapping[str, Any]
    trail: Trail
    is_top: bool = False


class Bounds(Struct, frozen=True):
    """How long one run may be: the number of its operations, and of its states."""

    operations: int = CONTINUE_AFTER_OPERATIONS
    states: int = CONTINUE_AFTER_STATES


class Pace(Struct):
    """How far a run has come."""

    bounds: Bounds
    operations: int = 0
    states: int = 0

    @property
    def is_due(self) -> bool:
        """Whether it is long enough to continue as new."""
        return self.operations >= self.bounds.operations or self.states >= self.bounds.states


class Work(Protocol):
    """What does the work of tasks."""

    def token(self, run: Run, frame: Frame, visit: Visit, /) -> str:
        """The token by which the next attempt of a Task is answered from outside."""
        ...

    async def perform(self, run: Run, frame: Frame, visit: Visit, given: Any, limits: Limits, /) -> Any:
        """Do the work of a Task, and answer its result. Raises ``StatesError``."""
        ...

    async def call(self, run: Run, resource: str, given: Any, /) -> Any:
        """Call what is mapped for the resource of a reader or a writer. Raises ``StatesError``."""
        ...


class Maps(Protocol):
    """What runs the children of distributed Maps."""

    async def distribute(self, run: Run, order: MapOrder, map_run: str, /) -> Any:
        """Run a Map run, and answer the result of its Map. Raises ``StatesError``."""
        ...


class Run(Struct, frozen=True):
    """One run of one execution, in memory. ``branch`` runs a frame to its end and answers its output."""

    activation: Activation
    tasks: Work
    maps: Maps
    history: History
    randomness: Randomness
    pace: Pace
    quota: Quota
    branch: Callable[[Run, Frame, Any], Coroutine[Any, Any, Any]]
    visits: dict[str, int]

    def now_ms(self) -> int:
        """The time, the same on every replay."""
        return self.activation.now_ms

    def visiting(self, frame: Frame, state: State) -> str:
        """The place of the next visit of a state: ``Pay#1``, within an iteration ``Ship all#0[17]/Pay#0``."""
        path = f"{frame.path}{escaped(state.name)}"
        visits = self.visits.get(path, 0)
        self.visits[path] = visits + 1
        return f"{path}#{visits}"


def inner(frame: Frame, processor: Processor, path: str, *, variables: Mapping[str, Any], **context: Any) -> Frame:
    """A frame within another: it reads the variables of the outer one and has its own from then on."""
    return replace(
        frame,
        processor=processor,
        path=path,
        variables=variables,
        context={**frame.context, **context},
        trail=frame.trail.branch(),
        is_top=False,
    )
