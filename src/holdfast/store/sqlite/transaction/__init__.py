"""Jobs in the transaction of a caller, and the completion of a job in a transaction of its handler."""
