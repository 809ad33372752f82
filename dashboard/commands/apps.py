from django.apps import AppConfig


class CommandsConfig(AppConfig):
    name = "dashboard.commands"
    label = "commands"
