from django.apps import AppConfig


class PlansConfig(AppConfig):
    name = "dashboard.plans"
    label = "plans"
