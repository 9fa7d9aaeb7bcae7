"""The turn of an actor: what runs, what is committed, and what leaves then."""
