"""Files for other programs: a dashboard for Grafana (`grafana.json`), alert rules for Prometheus (`alerts.yaml`)."""
