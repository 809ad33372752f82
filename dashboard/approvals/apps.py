from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "dashboard.approvals"
    label = "approvals"

    def ready(self) -> None:
        """Whatever moves the estate on carries the proposals over that were planned for it, or overtakes them."""
        from dashboard.approvals.services.enacting import carry_over_or_overtake  # models are loaded by now
        from dashboard.operations.generation import moved

        moved.connect(
            lambda generation, **_: carry_over_or_overtake(generation=generation), weak=False, dispatch_uid="overtake")
