"""What waits for an actor: messages in the store, parked ones, and the queue in memory."""
