"""What every durable entity shares: its turn, its lease, wake-ups, the sweep. Start with ``turn`` and ``ownership``."""
