"""What the editor completes and explains in guards: the figures that a document may name, and the words about time."""

from __future__ import annotations

from scheduler.guards.guard_tree import EXAMPLES, MEANINGS, TEMPORAL
from scheduler.guards.task_figures import TASK_FIGURES

GUARD_LANGUAGE = {
    "figures": {name: figure.doc for name, figure in TASK_FIGURES.items()},
    "words": {name: {"example": EXAMPLES[name], "meaning": MEANINGS[name]} for name in TEMPORAL}}
