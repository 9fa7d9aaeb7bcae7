"""Actors from outside: look at them, list them, repair them."""
