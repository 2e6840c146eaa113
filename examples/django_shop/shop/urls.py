"""The URLs of the shop. Jobs are in the admin, under Holdfast."""

from django.contrib import admin
from django.urls import path
from orders import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders", views.place),
    path("orders/<int:number>", views.show),
    path("orders/<int:number>/remind", views.remind),
]
