"""What each kind of state does."""
