"""How an app is run: as a worker, or behind a bridge for code that is not async."""
