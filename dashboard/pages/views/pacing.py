"""Pacing: how the intervals of batches are chosen, for the whole estate."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.operations.pacing_choice import PACINGS, PacingInForce, choose_pacing, pacing_in_force
from dashboard.pages import flash


@require_safe
@login_required
def pacing(request: HttpRequest) -> HttpResponse:
    """The ways that there are, what each does and costs, and the one in force."""
    return render(request, "pacing.html", {
        "now": pacing_in_force(), "ways": PACINGS.values(), "may_choose": request.viewer.administers})


@require_POST
@login_required
def pacing_choose(request: HttpRequest) -> HttpResponse:
    """Choose another way; with ``usual`` what the installation says."""
    flash.attempt(
        request, lambda: choose_pacing(actor=request.user, name=request.POST.get("pacing", "")),
        text=_chosen_in_words, code="pacing")
    return redirect("pacing")


def _chosen_in_words(now: PacingInForce) -> str:
    return f"Intervals are chosen {now.kind.title.lower()} from now on."
