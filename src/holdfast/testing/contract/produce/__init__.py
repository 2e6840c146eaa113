"""Producing: ids that exist, successors, cancelling, odd ids and payloads, and finding jobs again."""
