"""State machines in Amazon States Language, as workflows."""
