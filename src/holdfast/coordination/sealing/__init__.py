"""Sealing: every body is encrypted, or transformed by a function of the user, before it leaves the process.

Bodies hold the values: inputs, results, messages, states, errors. The header stays readable because conditions read it:
ids, keys, names, statuses, times.

Bodies are sealed before large ones become blobs. A blob belongs to its item like a body, and its name, a digest of
sealed bytes, reveals nothing. An earlier release offloaded bodies first and sealed each blob for its name alone; such
blobs are still read.
"""

from holdfast.coordination.sealing.envelope import Envelope as Envelope
from holdfast.coordination.sealing.envelope import SealedOnly as SealedOnly
from holdfast.coordination.sealing.envelope import envelope_for as envelope_for
from holdfast.coordination.sealing.shared import sealed_shared as sealed_shared
from holdfast.coordination.sealing.store import sealed as sealed
