"""How a workflow body runs again from its journal: its private loop, its operations, its turn. Start with ``turn``."""
