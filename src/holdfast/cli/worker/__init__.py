"""`holdfast worker` and `holdfast workers`: run workers, and list them."""
