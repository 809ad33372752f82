"""Collectors whose evidence is computed from values alone, by what controllers read."""

from __future__ import annotations

from collections.abc import Mapping

from . import adaptations, chains, deployments, fusions, mode_evidence
from .world import Collector, World

PURE_COLLECTORS: Mapping[str, Collector[World]] = {
    "adaptations": Collector(adaptations.evidence, adaptations.frames, adaptations.effect),
    "chains": Collector(chains.evidence, chains.frames, chains.effect),
    "deployments": Collector(deployments.evidence, deployments.frames, deployments.effect),
    "fusions": Collector(fusions.evidence, fusions.frames, fusions.effect),
    "modes": Collector(mode_evidence.evidence, mode_evidence.frames, mode_evidence.effect)}
