"""Events: published through an outbox, carried by a relay, handled once each by consumers (G5); and ticks of cron."""
