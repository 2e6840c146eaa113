"""The log, live: one reader for each server, and what is sent to browsers."""
