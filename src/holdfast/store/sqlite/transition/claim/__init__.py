"""claim: due jobs are promoted, keys take turns, and a worker gets what the limits allow."""
