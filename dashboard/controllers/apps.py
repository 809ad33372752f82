from django.apps import AppConfig


class ControllersConfig(AppConfig):
    name = "dashboard.controllers"
    label = "controllers"

    def ready(self) -> None:
        """Add what is wrong with machines on order to the findings."""
        from dashboard.controllers.machines_told import wrong_machines
        from dashboard.operations.diagnosis.health import add_finder

        add_finder(wrong_machines)
