from django.apps import AppConfig


class ControllersConfig(AppConfig):
    name = "dashboard.controllers"
    label = "controllers"

    def ready(self) -> None:
        """Tell what is wrong with machines on order where findings are told."""
        from dashboard.controllers.machines_told import wrong_machines
        from dashboard.operations.diagnosis.health import add_finder

        add_finder(wrong_machines)
