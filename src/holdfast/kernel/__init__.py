"""What every durable entity shares: its turn is owned, woken, swept and told of. Start with ``host`` and ``hold``."""
