from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "dashboard.approvals"
    label = "approvals"
