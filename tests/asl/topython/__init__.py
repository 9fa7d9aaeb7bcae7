"""Machines as plain workflows."""
