"""The tests inside of sites and examples are run by those beside them, in processes of their own."""

collect_ignore = ["django_site"]
