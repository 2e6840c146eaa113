"""What servers and worker processes import: the application, made once, and its jobs."""

from jobs import jobs as jobs
from shop import create_app

application = create_app()
