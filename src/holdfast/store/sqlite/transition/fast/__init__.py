"""Fast paths: whole batches in a few statements. Each says which slow path it equals; a test compares them."""
