from django.apps import AppConfig


class ControllersConfig(AppConfig):
    name = "dashboard.controllers"
    label = "controllers"
