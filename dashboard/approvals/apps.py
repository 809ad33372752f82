from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "dashboard.approvals"
    label = "approvals"

    def ready(self) -> None:
        """Whatever moves the estate on overtakes the proposals that were planned for it."""
        from dashboard.approvals.services.enacting import overtake_older  # models are loaded by now
        from dashboard.operations.generation import moved

        moved.connect(
            lambda generation, **_: overtake_older(generation=generation), weak=False, dispatch_uid="overtake")
