from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "dashboard.alerts"
    label = "alerts"

    def ready(self) -> None:
        """Add alerts to the findings."""
        from dashboard.alerts.firing import firing
        from dashboard.operations.diagnosis.health import add_finder

        add_finder(firing)
