from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "dashboard.audit"
    label = "audit"
