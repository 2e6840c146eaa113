"""The URLs of the site."""

from django.contrib import admin
from django.urls import path

from . import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("post", views.post),
    path("post-at-once", views.post_at_once),
    path("apost", views.apost),
    path("post-far", views.post_far),
]
