"""Pictures as SVG, drawn by the server: charts, the timeline of a job, and graphs of chains and flows."""
