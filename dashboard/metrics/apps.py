from django.apps import AppConfig


class MetricsConfig(AppConfig):
    name = "dashboard.metrics"
    label = "metrics"
