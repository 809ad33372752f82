"""What a form's button does, and what the next page says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest

from scheduler.model.errors import NotFound, WeirError

Said = str | Callable[[Any], str]


def told(request: HttpRequest, do: Callable[[], Any], *, said: Said) -> bool:
    """Do it, and let the next page say what came of it: ``said``, made of what was done, or the error's remedy."""
    try:
        done = do()
    except WeirError as error:
        messages.error(request, error.told)
        return False
    messages.success(request, said(done) if callable(said) else said)
    return True


def told_of(request: HttpRequest, ways: Mapping[str, tuple[Callable[..., Any], Said]], way: str, **what: Any) -> None:
    """The same of one of several ways, by its name; ``NotFound`` where there is no such way."""
    if way not in ways:
        raise NotFound("There is no such action.", remedy="Use the buttons of the page.")
    do, said = ways[way]
    told(request, lambda: do(actor=request.user, **what), said=said)
