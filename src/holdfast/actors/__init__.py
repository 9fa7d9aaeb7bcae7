"""Actors: the kernel's second programming model. One actor is one entity: its state, lease and mailbox (DESIGN §7)."""
