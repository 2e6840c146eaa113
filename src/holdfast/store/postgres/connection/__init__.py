"""Connections: how one is made, pooled and called through, and what its errors mean."""
