from django.apps import AppConfig


class TeamsConfig(AppConfig):
    name = "dashboard.teams"
    label = "teams"
