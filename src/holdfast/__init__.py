"""A job queue for Python that never lets go of a job."""
