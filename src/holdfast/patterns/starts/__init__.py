"""Starts by key that wait, gather, or are left out: each key is a hidden actor, whose commit starts the workflow."""
