"""Upkeep: reaping, expiring and schedules, done by workers for their queues and by maintainers for any."""
