from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    name = "dashboard.schedules"
    label = "schedules"
