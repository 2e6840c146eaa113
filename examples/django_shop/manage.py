"""A shop on Django: orders are paid in the request, and confirmed by a job that the same transaction enqueues.

python manage.py migrate
python manage.py runserver              # and, beside it:
python manage.py holdfast worker --reload
python manage.py test
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
