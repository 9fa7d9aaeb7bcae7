"""Sealing: every body is encrypted, or transformed in another way of the user's own, before it leaves the process.

What a body holds are the values: inputs, results, messages, states, errors. The header stays readable, for conditions
are made of it: ids, keys, names, statuses, times.

Bodies are sealed before large ones are put aside: a blob is as much its owner's as a body is, whatever refers to it,
and its name, a digest of sealed bytes, tells nothing. An earlier release put them aside first, and sealed each blob for
its name alone: those are read still.
"""

from holdfast.coordination.sealing.envelope import Envelope as Envelope
from holdfast.coordination.sealing.envelope import SealedOnly as SealedOnly
from holdfast.coordination.sealing.envelope import envelope_for as envelope_for
from holdfast.coordination.sealing.shared import sealed_shared as sealed_shared
from holdfast.coordination.sealing.store import sealed as sealed
