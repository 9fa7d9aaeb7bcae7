"""Cases of conformance: what a state machine does, as AWS recorded or documents it, compared with what ours does."""
