from django.apps import AppConfig


class HistoryConfig(AppConfig):
    name = "dashboard.history"
    label = "history"
