"""What entry points take and answer: one description of each, and the packing of jobs and settlements."""
