"""Workflows: the first program of the kernel."""
