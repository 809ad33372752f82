from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "dashboard.catalog"
    label = "catalog"
