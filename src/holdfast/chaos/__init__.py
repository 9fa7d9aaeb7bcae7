"""Stories of chaos: ``holdfast chaos run NAME`` lets one thing go wrong in real processes, then compares the books.

Read ``shop.py`` first: it is all the code a user would write. ``stories/`` has the eight stories. ``points.py`` is how
a worker dies or stops at a named place, and ``audit.py`` compares the books at the end. The bank outside and its ledger
are in ``holdfast.crew``.
"""
