"""A call, from its reference to its reply."""
