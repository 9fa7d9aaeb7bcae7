"""Idempotency keys: one record for each key, and its few transitions.

    absent, or past its window ──acquire──▶ RUNNING ──finish──▶ COMPLETED or FAILED: repeats are answered from it
    FREE ──────────────────────acquire──▶ RUNNING ──release─▶ FREE: the same payload may be tried again
    RUNNING, its lease lapsed ─acquire──▶ RUNNING of a newer owner, or PARKED after too many deaths

Each transition is one conditional write, and none deletes the record. An owner's name is new for each attempt, so only
the attempt that holds the key can end it, however late another one wakes up (G3). The lease says how soon another
caller may try, the window how long an outcome counts: two different times, and safety rests on neither (G9).
"""

from __future__ import annotations

from holdfast.coordination.idempotency.acquiring import acquire as acquire
from holdfast.coordination.idempotency.acquiring import new_owner as new_owner
from holdfast.coordination.idempotency.holding import complete as complete
from holdfast.coordination.idempotency.holding import fail as fail
from holdfast.coordination.idempotency.holding import release as release
from holdfast.coordination.idempotency.holding import renew as renew
from holdfast.coordination.idempotency.operating import forget as forget
from holdfast.coordination.idempotency.operating import look as look
from holdfast.coordination.idempotency.record import COMPLETED as COMPLETED
from holdfast.coordination.idempotency.record import FAILED as FAILED
from holdfast.coordination.idempotency.record import LONGEST_KEY_BYTES as LONGEST_KEY_BYTES
from holdfast.coordination.idempotency.record import NO_RESULT as NO_RESULT
from holdfast.coordination.idempotency.record import RUNNING as RUNNING
from holdfast.coordination.idempotency.record import SKEW_MS as SKEW_MS
from holdfast.coordination.idempotency.record import Ended as Ended
from holdfast.coordination.idempotency.record import Held as Held
from holdfast.coordination.idempotency.record import Place as Place
from holdfast.coordination.idempotency.record import Record as Record
from holdfast.coordination.idempotency.record import Terms as Terms
from holdfast.coordination.idempotency.record import Ticket as Ticket
from holdfast.coordination.idempotency.record import busy as busy
from holdfast.coordination.idempotency.record import decode as decode
from holdfast.coordination.idempotency.record import place_of as place_of
