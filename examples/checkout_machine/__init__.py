"""A checkout as a state machine with retries, a catch and compensation, and the same as a workflow."""
