from django.apps import AppConfig


class ProfilesConfig(AppConfig):
    name = "dashboard.profiles"
    label = "profiles"
