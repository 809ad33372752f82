"""The start of the site's core in Django."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.backends.signals import connection_created

from dashboard.core.postgresql_texts import replace_what_it_refuses


class CoreConfig(AppConfig):
    """The app."""

    name = "dashboard.core"

    def ready(self) -> None:
        """See to each connection to the database, and to the check of the installation."""
        from dashboard.core import deploy_checks  # noqa: F401  (registers itself)

        connection_created.connect(replace_what_it_refuses)
