"""The collector of every controller, by what it reads: evidence is computed from values alone."""

from __future__ import annotations

from collections.abc import Mapping

from . import adaptations, chains, deployments, fusions, mode_evidence, profile_evidence, slow_tasks
from .world import Collector, World

PURE_COLLECTORS: Mapping[str, Collector[World]] = {
    "adaptations": Collector(adaptations.evidence, adaptations.frames, adaptations.effect),
    "chains": Collector(chains.evidence, chains.frames, chains.effect),
    "deployments": Collector(deployments.evidence, deployments.frames, deployments.effect),
    "fusions": Collector(fusions.evidence, fusions.frames, fusions.effect),
    "modes": Collector(mode_evidence.evidence, mode_evidence.frames, mode_evidence.effect),
    "profiles": Collector(profile_evidence.evidence, profile_evidence.frames, profile_evidence.effect),
    "slow_tasks": Collector(slow_tasks.evidence, slow_tasks.frames, fusions.effect)}
