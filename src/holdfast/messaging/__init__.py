"""Events: published through an outbox, delivered by a relay, handled once each by consumers (G5). Also cron."""
