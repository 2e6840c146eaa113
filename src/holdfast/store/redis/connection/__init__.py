"""Connections to one server, a cluster, or the master that sentinels name."""
