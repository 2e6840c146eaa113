"""Workers: leases and suspects, and what the end of an attempt means."""
