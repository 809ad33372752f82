"""What a form's button does, and what the next page says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest

from scheduler.model.errors import WeirError


def told(request: HttpRequest, do: Callable[[], Any], *, said: str | Callable[[Any], str]) -> bool:
    """Do it, and let the next page say what came of it: ``said``, made of what was done, or the error's remedy."""
    try:
        done = do()
    except WeirError as error:
        messages.error(request, error.told)
        return False
    messages.success(request, said(done) if callable(said) else said)
    return True
