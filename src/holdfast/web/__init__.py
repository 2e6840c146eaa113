"""The HTTP API and the dashboard, one ASGI application: `pip install 'holdfast[web]'`."""
