"""process: handlers run in interpreters of their own, which can be killed, and share no lock with the worker."""
