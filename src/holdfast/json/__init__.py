"""JSON of the command line and the HTTP API, which have one: records as they are shown, and calls as they are given."""
