"""Jobs in transactions that others write in, too: a caller's, and a handler's."""
