"""Actors: one call at a time, by key.

A call reads top to bottom: ``reference`` (what ``Cart.at("u1")`` answers), ``calling`` (in memory, by mail, without a
lease), ``mailbox`` (what waits for the actor) and ``turn`` (perform, commit, reply). ``admin`` looks from outside.
"""
