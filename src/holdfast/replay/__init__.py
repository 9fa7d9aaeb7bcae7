"""How a workflow body runs again from its journal: its loop, its operations, its turn. Start with ``stages``."""
