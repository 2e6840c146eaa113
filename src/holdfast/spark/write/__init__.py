"""A DataFrame's rows as jobs: options, checks, ids, and the report of what became of them."""
