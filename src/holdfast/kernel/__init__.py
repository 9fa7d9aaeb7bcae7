"""What every durable entity shares: the turn, the journal, the loop. Start with ``turn``."""
