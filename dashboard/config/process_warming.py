"""What a process of the site loads before it serves, so that no first visitor waits for it."""

from __future__ import annotations

from django.urls import get_resolver

from dashboard import jobs


def warm_up() -> None:
    """Import the pages and the task library (a SQL parser alone takes half a second), and read its samples."""
    _ = get_resolver().url_patterns
    jobs.task_types()
    jobs.samples()
