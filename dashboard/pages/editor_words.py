"""Completions and explanations of guards in the editor, as JSON: figures that a document may name, words about time."""

from __future__ import annotations

import json

from scheduler.guards.guard_tree import EXAMPLES, MEANINGS, TEMPORAL
from scheduler.guards.task_figures import TASK_FIGURES

GUARD_LANGUAGE = json.dumps({
    "figures": {name: figure.doc for name, figure in TASK_FIGURES.items()},
    "words": {name: {"example": EXAMPLES[name], "meaning": MEANINGS[name]} for name in TEMPORAL}})
