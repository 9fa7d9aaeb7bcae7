"""What Lambda calls in the trial."""

from __future__ import annotations

from holdfast.verify.trial import trial

handler = trial().app.lambda_handler()
