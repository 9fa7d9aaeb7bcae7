"""Streams: events of one thing, appended and never changed (DESIGN idea 1).

``kinds`` holds the kinds of events, ``record`` what the store holds. ``streams`` is what is declared once, and appends
and reads by ``appending``, ``pages`` and ``log``, which numbers the events of all streams. ``fold`` makes a state of
them, and ``deleting`` deletes them.
"""
