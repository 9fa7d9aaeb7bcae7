"""What lies in the store for an actor: messages to it, and parked ones."""
