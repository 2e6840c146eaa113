"""What a running Holdfast tells its operators: logs, metrics, traces and health, made in one place."""
