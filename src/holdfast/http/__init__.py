"""HTTP: what Holdfast does for web applications. Plain ASGI, so that it fits any framework and needs none."""

from holdfast.http.idempotency import IdempotentRequests as IdempotentRequests
