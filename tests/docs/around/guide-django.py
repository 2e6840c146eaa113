from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command

TASKS_FILE = """
# piece 2
"""
VIEWS = """
# piece 3
"""
SIGNALS = """
# piece 5
"""
TESTS = """
# piece 7
"""
FILES = {
    "orders/__init__.py": "",
    "orders/models.py": "from django.db import models\n\nclass Order(models.Model):\n    to = models.TextField()\n",
    "orders/tasks.py": TASKS_FILE,
    "orders/views.py": VIEWS,
    "orders/signals.py": SIGNALS,
    "orders/tests.py": "import orders.signals\n" + TESTS,
    "urls.py": "from django.urls import path\nfrom orders.views import place\nurlpatterns = [path('orders', place)]\n",
}
for name, text in FILES.items():
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
# piece 4
# piece 6
# piece 1
INSTALLED_APPS = ["django.contrib.contenttypes", *(name for name in INSTALLED_APPS if name is not ...)]
DATABASE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db", "TEST": {"NAME": "test_shop.db"}}
settings.configure(
    INSTALLED_APPS=INSTALLED_APPS, HOLDFAST=HOLDFAST, DATABASES={"default": DATABASE}, ROOT_URLCONF="urls",
    ALLOWED_HOSTS=["*"], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", TASKS=TASKS,
)  # fmt: skip
django.setup()
call_command("test", "orders")
