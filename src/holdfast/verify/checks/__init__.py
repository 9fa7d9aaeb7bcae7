"""The checks, by what they look at. Each takes a ``Bench`` and returns a ``Finding``; ``registry`` lists them."""
