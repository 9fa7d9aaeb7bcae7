"""Machines, definitions and activities that a home keeps because somebody created them by a request."""
