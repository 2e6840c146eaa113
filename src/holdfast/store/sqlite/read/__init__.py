"""Lists of jobs in pages, and what operators measure."""
