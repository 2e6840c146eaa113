"""Reading: records, searches, the log and chains."""
