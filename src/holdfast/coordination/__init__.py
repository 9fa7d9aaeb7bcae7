"""Concepts on the Store port alone."""
