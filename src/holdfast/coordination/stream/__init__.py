"""Streams: events of one thing, appended and never changed (DESIGN idea 1).

``kinds`` holds the kinds of events, ``record`` what the store holds, ``handle`` appends and reads, ``log`` numbers the
events of all streams, ``fold`` makes a state of them.
"""
