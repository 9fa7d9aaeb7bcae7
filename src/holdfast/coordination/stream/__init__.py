"""Streams: what has happened to one thing, event after event (DESIGN idea 1).

``kinds`` says which events there are, ``record`` what the store holds, ``handle`` appends and reads, ``log`` numbers
the events of all streams, ``fold`` makes a state of them.
"""
