"""Health: whether a worker lives and is ready, told on a port by a thread of its own, and to systemd."""
