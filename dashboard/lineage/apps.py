from django.apps import AppConfig


class LineageConfig(AppConfig):
    name = "dashboard.lineage"
    label = "lineage"
