"""The API described: for programs as an OpenAPI document, for people as a page."""
