"""What runs in a process of the pool: its program, its jobs, and the threads that watch them."""
