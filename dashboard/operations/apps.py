from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "dashboard.operations"
    label = "operations"
