"""What each page shows, read from the store: plain values for the templates."""
