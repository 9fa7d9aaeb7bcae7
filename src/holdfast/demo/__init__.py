"""The demonstration: a shop whose checkouts survive ``kill -9``. ``holdfast demo`` runs it.

Read ``shop.py`` first: it is all the code a user would write. ``payments.py`` and ``warehouse.py`` are the outside
world, each in a process of its own; ``run.py`` starts everything and kills workers; ``audit.py`` compares the books.
"""
