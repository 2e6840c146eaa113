"""Web frameworks: a module for each, imported where it is used."""
