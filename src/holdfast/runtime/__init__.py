"""How an app runs: as a worker, on AWS Lambda, or behind a bridge for code that is not async."""
