from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "dashboard.pages"
    label = "pages"
