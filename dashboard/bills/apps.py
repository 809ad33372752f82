from django.apps import AppConfig


class BillsConfig(AppConfig):
    name = "dashboard.bills"
    label = "bills"

    def ready(self) -> None:
        """A dataflow pays from the moment that it runs until the moment that it no longer does."""
        from django.db.models.signals import post_save

        from dashboard.bills.task_needs import on_dataflow_saved  # models are loaded by now
        from dashboard.catalog.models import DataflowRecord

        post_save.connect(on_dataflow_saved, sender=DataflowRecord, dispatch_uid="needs")
