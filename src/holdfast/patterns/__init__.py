"""Patterns that an app offers without workflows or actors: concepts of ``coordination``, bound to the app."""
