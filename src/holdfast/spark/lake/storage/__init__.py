"""Where a lake's files lie, and how they are written and read: a folder, or object storage by delta-rs."""
