"""The transitions: what each does to the rows of a database, inside one transaction."""
