from django.apps import AppConfig


class BillsConfig(AppConfig):
    name = "dashboard.bills"
    label = "bills"

    def ready(self) -> None:
        """A dataflow pays from the moment that it runs until the moment that it no longer does."""
        from dashboard.bills.task_needs import follow_dataflow  # models are loaded by now
        from dashboard.catalog import dataflow_states

        dataflow_states.FOLLOWERS.append(follow_dataflow)
