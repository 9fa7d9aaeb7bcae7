"""Every error Holdfast raises, as one tree.

    HoldfastError                    catch this to catch them all
    ├── ConfigurationError           the app, its home or its registrations are wrong
    │   ├── DuplicateName            two workflows or steps share one name
    │   └── UnknownName              no workflow, step, signal or query has this name here
    ├── InvalidInput                 an argument, option or payload is wrong; nothing was written
    │   ├── SerializationError       a value does not survive the typed JSON round trip (G12)
    │   ├── PayloadTooLarge          a value is over the stated limit
    │   └── InvalidToken             a callback token is forged, damaged or already used
    ├── ExecutionError               how an execution ended, as its caller sees it
    │   ├── ExecutionFailed          its body raised
    │   ├── ExecutionCancelled       it was cancelled
    │   ├── ExecutionTimedOut        it ran past its timeout
    │   ├── ExecutionTerminated      it was terminated from outside
    │   └── CompensationFailed       an undo gave up; a person must act (``holdfast show``)
    ├── StepError                    a step or callback ended badly, seen inside the workflow body
    │   ├── StepFailed               it raised a class that is not registered here
    │   ├── StepTimeout              it, or its heartbeat, took too long; its effect may have happened
    │   └── StepInterrupted          an at-most-once step may or may not have run
    ├── BatchFailed                  more items of a map failed than its rules tolerate; carries the batch
    ├── CallFailed                   an actor's method or an idempotent handler raised a class that is not registered
    ├── CallTimeout                  an actor's method or a consumer took longer than it may; nothing of it was kept
    ├── CallCycle                    actors would wait for each other without end
    ├── MailboxFull                  an actor has too many messages waiting; send again later
    ├── LeaseLost                    your lease may have another owner by now; carries the result that was not recorded
    ├── IdempotencyMismatch          the id or key is taken, with another input (G11)
    ├── Busy                         another attempt runs under this key; carries when to try again
    ├── KeyParked                    the attempts under this key crashed one after the other; a person must act
    ├── ResultNotStored              the handler has run, but its result is not in the store; carries the value
    ├── Conflict                     another writer has changed it (or, StreamDeleted, deleted it); carries the version
    ├── NotFound                     there is no such execution, document or stream
    ├── InvalidState                 the execution's status does not allow this
    ├── Terminal                     raise (a subclass of) it in a step: never retried
    ├── DeterminismError
    │   ├── NondeterminismError      the code does not fit the journal (G13)
    │   ├── IOOutsideStep            the workflow body touched the world outside a step
    │   ├── Runaway                  the workflow body runs without end, and never waits
    │   └── NestedDurableCall        a step called a durable operation
    └── StoreError                   the store refused or failed
        ├── Refused                  a condition did not hold; carries the item as it is
        ├── StoreUnavailable         it did not answer, or is full; the write may or may not have been applied
        └── StoreUnusable            wrong version, corrupt, read-only, replaced: a person must act

``WaitTimeout`` is a ``HoldfastError`` and a ``TimeoutError``. Control flow (``ControlFlow``) derives
from ``BaseException``, so that ``except Exception`` in user code cannot swallow it.

Each class has a stable ``code`` for machines. Messages say what happened and what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from holdfast.items import Item


class HoldfastError(Exception):
    """The root. ``code`` is stable across releases; ``retryable`` says whether the same call may work later."""

    code: ClassVar[str] = "holdfast"
    retryable: ClassVar[bool] = False


class ConfigurationError(HoldfastError):
    """The app, its home or its registrations are wrong. Fix the code or the URL."""

    code = "configuration"


class DuplicateName(ConfigurationError):
    """Two registrations share one name; the message gives both places."""

    code = "duplicate_name"


class UnknownName(ConfigurationError):
    """No workflow, step or query of this name is registered in this app."""

    code = "unknown_name"


class InvalidInput(HoldfastError, ValueError):
    """An argument, option or payload is wrong. Nothing was written."""

    code = "invalid_input"


class SerializationError(InvalidInput):
    """A value does not survive encoding to typed JSON and back unchanged (G12)."""

    code = "serialization"


class PayloadTooLarge(InvalidInput):
    """An encoded value is over the stated limit."""

    code = "payload_too_large"


class InvalidToken(InvalidInput):
    """A callback token is forged, damaged, expired or already used. One text for all, so that nothing leaks."""

    code = "invalid_token"


class ExecutionError(HoldfastError):
    """An execution did not return a result. ``error_type`` and ``error_message`` describe its cause."""

    code = "execution"

    def __init__(self, message: str, error_type: str = "", error_message: str = "") -> None:
        super().__init__(message, error_type, error_message)
        self.error_type = error_type
        self.error_message = error_message

    def __str__(self) -> str:
        return str(self.args[0])


class ExecutionFailed(ExecutionError):
    """The body of the execution raised."""

    code = "execution_failed"


class ExecutionCancelled(ExecutionError):
    """The execution was cancelled and its clean-up has run."""

    code = "execution_cancelled"


class ExecutionTimedOut(ExecutionError):
    """The execution ran past its timeout."""

    code = "execution_timed_out"


class ExecutionTerminated(ExecutionError):
    """The execution was terminated from outside; it does not run any more."""

    code = "execution_terminated"


class CompensationFailed(ExecutionError):
    """An undo gave up, so the execution ends, even if this is caught. ``retry`` resumes at the undos that it names."""

    code = "compensation_failed"


class StepError(HoldfastError):
    """A durable operation ended badly, as seen inside the workflow body."""

    code = "step"


class StepFailed(StepError):
    """A step raised an error whose class is not registered with the app (``raises=``), so only its name came back."""

    code = "step_failed"

    def __init__(self, error_type: str, error_message: str) -> None:
        super().__init__(error_type, error_message)
        self.error_type = error_type
        self.error_message = error_message

    def __str__(self) -> str:
        return f"{self.error_type}: {self.error_message}"


class StepTimeout(StepError, TimeoutError):
    """An attempt, or the wait for its heartbeat, took too long. The effect may have happened (G10)."""

    code = "step_timeout"


class StepInterrupted(StepError):
    """An at-most-once step started, and its process died before the outcome was recorded (G10)."""

    code = "step_interrupted"


class BatchFailed(HoldfastError):
    """More items of a map failed than its rules tolerate. ``batch`` has the outcome of each; the cause is the first.

    If it comes from a record (for example of a child's failure), ``batch`` is ``None``: only the message was kept.
    """

    code = "batch_failed"

    def __init__(self, message: str, batch: Any = None) -> None:
        super().__init__(message, batch)
        self.batch = batch

    def __str__(self) -> str:
        return str(self.args[0])


class CallFailed(StepFailed):
    """An actor's method, or an idempotent handler, raised an error whose class is not registered with the app
    (``raises=``), so only its name came back.
    """

    code = "call_failed"


class CallTimeout(HoldfastError, TimeoutError):
    """An actor's method, or a consumer, ran for longer than its ``timeout`` and was cancelled; nothing was kept."""

    code = "call_timeout"


class CallCycle(HoldfastError):
    """A call would have to wait for itself: it reaches an actor that waits for it, or two actors call each other."""

    code = "call_cycle"


class MailboxFull(HoldfastError):
    """The actor's mailbox is full. Nothing was sent."""

    code = "mailbox_full"
    retryable = True


class LeaseLost(HoldfastError):
    """A lease lapsed, or another owner took it over. Later writes of this owner under its fence are refused (G3, G9).

    ``value`` is the result of the work, if it has ended: its effects outside the store have happened.
    """

    code = "lease_lost"
    retryable = True

    def __init__(self, message: str, value: object = None) -> None:
        super().__init__(message)
        self.value = value


class IdempotencyMismatch(HoldfastError):
    """The id, or the key, belongs to something that was started with another input (G11)."""

    code = "idempotency_mismatch"


class Conflict(HoldfastError):
    """A document or stream is not at the version that the caller expected, and nothing of the write was applied.

    ``there`` is the present state: a document's ``Versioned`` value, or ``None`` if there is none; a stream's
    version.
    """

    code = "conflict"
    retryable = True

    def __init__(self, message: str, there: Any = None) -> None:
        super().__init__(message, there)
        self.there = there

    def __str__(self) -> str:
        return str(self.args[0])


class Busy(HoldfastError):
    """Another attempt runs under this key. Nothing was run; try again in ``retry_after_seconds``."""

    code = "busy"
    retryable = True

    def __init__(self, message: str, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class KeyParked(HoldfastError):
    """Too many attempts under this key crashed without an outcome. It is not tried again until a person clears it."""

    code = "key_parked"


class ResultNotStored(HoldfastError):
    """The handler has run, but its result could not be stored. Do not run it again for the sake of the result.

    ``value`` is its result, for the caller that ran it; for later callers it is ``None``.
    """

    code = "result_not_stored"

    def __init__(self, message: str, value: object = None) -> None:
        super().__init__(message)
        self.value = value


class NotFound(HoldfastError):
    """There is no such execution, document or stream."""

    code = "not_found"


class InvalidState(HoldfastError):
    """The execution's status does not allow this operation."""

    code = "invalid_state"


class Terminal(HoldfastError):
    """Raise it, or a subclass registered with ``raises=``, in a step to prevent retries."""

    code = "terminal"


class DeterminismError(HoldfastError):
    """The workflow body did something that replay could not repeat."""

    code = "determinism"


class NondeterminismError(DeterminismError):
    """The code does not fit the journal; the message names both sides (G13)."""

    code = "nondeterminism"


class IOOutsideStep(DeterminismError):
    """The workflow body touched sockets, threads, files or processes. Put that in a step."""

    code = "io_outside_step"


class Runaway(DeterminismError):
    """The workflow body loops without waiting. Await the event that it needs."""

    code = "runaway"


class NestedDurableCall(DeterminismError):
    """A step called a durable operation. Call it from the workflow body instead."""

    code = "nested_durable_call"


class WaitTimeout(HoldfastError, TimeoutError):
    """The caller's own timeout passed. The execution continues."""

    code = "wait_timeout"
    retryable = True


class StoreError(HoldfastError):
    """The store refused or failed."""

    code = "store"


class Refused(StoreError):
    """A condition did not hold, and nothing of the write was applied.

    ``index`` is the refused write's place in the call, ``item`` the stored item (``None`` if there is none):
    the refusal is the read for the next try.
    """

    code = "refused"

    def __init__(self, index: int, item: Item | None) -> None:
        super().__init__(index, item)
        self.index = index
        self.item = item

    def __str__(self) -> str:
        return f"write {self.index} was refused: the store holds {self.item!r}"


class StoreUnavailable(StoreError):
    """The store did not answer, or has no room. A write may or may not have been applied: send it again and read."""

    code = "store_unavailable"
    retryable = True


class StoreUnusable(StoreError):
    """The store cannot be used as it is: newer version, corrupt, read-only, replaced. A person must act."""

    code = "store_unusable"


class ControlFlow(BaseException):
    """Signals between the kernel and a workflow body. Never catch it; a bare ``except:`` must raise it again."""


class ContinueAsNew(ControlFlow):
    """The execution continues as a new run with new arguments and an empty journal. Raised by ``continue_as_new``."""

    def __init__(self, input: bytes) -> None:
        super().__init__("continue as new")
        self.input = input


class Evicted(ControlFlow):
    """The execution leaves memory; its durable state stays. Durable operations raise it again."""
