"""The catalogue of task types with their parameters."""

from __future__ import annotations

from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from dashboard import jobs
from dashboard.pages.templatetags.weir import words
from scheduler.model.task_types import TaskType

_ORDER = {"source": 0, "transform": 1, "sink": 2}


@require_safe
def task_types(request: HttpRequest) -> HttpResponse:
    """Every installed task type by kind and family; with ``family``, or a search ``q`` of name and text, in detail."""
    search, chosen = (request.GET.get(name, "").strip() for name in ("q", "family"))
    listed_types = [
        declared for declared in jobs.task_types().values()
        if all(word in f"{declared.name} {declared.family} {declared.doc}".lower() for word in search.lower().split())
    ]
    listed_types.sort(key=lambda declared: (_ORDER[declared.kind], _family(declared), declared.name))
    index = [
        {"kind": kind, "key": slugify(f"{kind} {family}"), "types": list(types),
         "title": "I/O" if family == "io" else words(family).capitalize()}
        for (kind, family), types in groupby(listed_types, key=lambda declared: (declared.kind, _family(declared)))
    ]
    families = [family for family in index if search or chosen in ("", family["key"])]
    return render(request, "task_types.html", {
        "index": index, "families": families, "search": search, "chosen": "" if search else chosen,
        "total": len(listed_types)})


def _family(declared: TaskType) -> str:
    """A type of no family is of that which is named as its kind."""
    return declared.family or declared.kind
