"""The commands on jobs: enqueue, list, show, watch, cancel, requeue, promote and delete."""
