"""A shopping cart, whole: an HTTP service over documents, streams, a cache, sessions, a workflow and an outbox.

    python -m examples.shopping_cart           # worker and server on loopback; prints what to type
    python -m examples.shopping_cart --demo    # drives itself over HTTP, checks the books, and ends

Read it in this order: `shop`, `catalogue`, `carts`, `stock`, `orders`, `outside`, `checkout`, `letters`, `visits`,
`service`. Needs the extra `server`; with `HOLDFAST_CACHE_URL` the catalogue's cache is shared through Redis.
"""
