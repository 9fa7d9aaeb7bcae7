"""Machines, definitions and activities that a home keeps because a request has created them."""
