"""HTTP: an app for callers that speak it, and what Holdfast does for web applications. It needs no framework."""

from holdfast.http.idempotency import IdempotentRequests as IdempotentRequests
