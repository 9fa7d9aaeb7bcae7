"""One file per operation: what the body asks, and what that does in the world."""
