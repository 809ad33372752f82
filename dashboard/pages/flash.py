"""Flash messages: what the next page says about the form that was just sent.

Each message carries a code beside its text: an error's own code, or what was done. Pages show it as ``data-flash``, so
that tests and scripts need not read the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest

from dashboard.approvals.models import Proposal
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.plan_kinds import PLAN_KINDS

Text = str | Callable[[Any], str]
# What waits is read and written with the session at each request: a message may quote what was sent, and somebody may
# send forms and read no page.
LONGEST, MOST_WAITING = 2_000, 20


def success(request: HttpRequest, text: str, *, code: str) -> None:
    """Let the next page say what was done."""
    _tell(request, messages.SUCCESS, text, code)


def proposed(request: HttpRequest, proposal: Proposal, *, code: str = "") -> None:
    """Let the next page say what comes of a proposal; the code is the kind of its plan where none is given."""
    kind = PLAN_KINDS[proposal.plan.kind]
    success(request, kind.notice, code=code or kind.name)


def failure(request: HttpRequest, error: WeirError) -> None:
    """Let the next page say what went wrong and what helps."""
    _tell(request, messages.ERROR, error.full_message, error.code)


def attempt(request: HttpRequest, action: Callable[[], Any], *, text: Text, code: str) -> bool:
    """Run an action and let the next page say what came of it.

    Parameters
    ----------
    action : callable
        Takes nothing; may raise ``WeirError``, which becomes the message.
    text : str or callable
        The message of success, or a function that makes it from the action's result.
    """
    try:
        result = action()
    except WeirError as error:
        failure(request, error)
        return False
    success(request, text(result) if callable(text) else text, code=code)
    return True


def attempt_named(
    request: HttpRequest, actions: Mapping[str, tuple[Callable[..., Any], Text]], name: str, **arguments: Any
) -> None:
    """Run one of several actions by its name, for the request's user; the name is the message's code."""
    if name not in actions:
        raise NotFound("There is no such action.", remedy="Use the buttons of the page.")
    action, text = actions[name]
    attempt(request, lambda: action(actor=request.user, **arguments), text=text, code=name)


def _tell(request: HttpRequest, level: int, text: str, code: str) -> None:
    """Let the next page say the beginning of a text, unless very many wait to be read."""
    if len(messages.get_messages(request)) < MOST_WAITING:
        messages.add_message(request, level, text[:LONGEST], extra_tags=code)
