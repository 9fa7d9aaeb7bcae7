"""The cases, a module per group of rows. A process that measures imports its own group: see ``benchmarks.cases``."""
