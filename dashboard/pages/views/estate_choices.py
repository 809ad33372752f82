"""Choices for the whole estate: how the intervals of batches are chosen, and whether teams share slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.operations.estate_store.estate_choices import EstateChoice, WayInForce
from dashboard.operations.estate_store.tenancy_choice import TENANCY_CHOICE, TenancyKind, shared_slots
from dashboard.operations.latency_control.pacing_choice import PACING_CHOICE, PacingKind
from dashboard.pages import flash


@require_safe
def pacing(request: HttpRequest) -> HttpResponse:
    """The ways that there are, what each does and costs, and the one in force."""
    return _ways(request, "pacing.html", PACING_CHOICE)


@require_POST
def pacing_choose(request: HttpRequest) -> HttpResponse:
    """Choose another way; empty for what the installation says."""
    return _choose(request, PACING_CHOICE, _paced_in_words)


@require_safe
def tenancy(request: HttpRequest) -> HttpResponse:
    """The choice of shared or separate slots, and those that are shared though they are not to be."""
    return _ways(request, "tenancy.html", TENANCY_CHOICE, shared_slots=shared_slots())


@require_POST
def tenancy_choose(request: HttpRequest) -> HttpResponse:
    """Choose another way; empty for what the installation says."""
    return _choose(request, TENANCY_CHOICE, _tenancy_in_words)


def _ways(request: HttpRequest, template: str, choice: EstateChoice[Any], **more: object) -> HttpResponse:
    return render(request, template, {
        "choice": choice.column, "choose_url": f"{choice.column}_choose", "now": choice.in_force(),
        "ways": choice.ways.values(), "may_choose": request.viewer.administers, **more})


def _choose(
    request: HttpRequest, choice: EstateChoice[Any], in_words: Callable[[WayInForce[Any]], str]
) -> HttpResponse:
    flash.attempt(
        request, lambda: choice.choose(actor=request.user, name=request.POST.get(choice.column, "")), text=in_words,
        code=choice.column)
    return redirect(choice.column)


def _paced_in_words(now: WayInForce[PacingKind]) -> str:
    return f"Intervals are chosen {now.kind.title.lower()} from now on."


def _tenancy_in_words(now: WayInForce[TenancyKind]) -> str:
    return f"{now.kind.title} from now on. What runs stays where it is."
