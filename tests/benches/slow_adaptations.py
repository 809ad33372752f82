"""All algorithms of adaptation that are compared: those that Weir offers, and two that take longer than a step."""

from __future__ import annotations

from scheduler.adaptation.adaptation_registry import ADAPTATIONS, AdaptationKind
from scheduler.adaptation.greedy_adaptation import adapt_centrally

from .genetic import adapt_genetically, deploy_genetically

COMPARED: dict[str, AdaptationKind] = ADAPTATIONS | {kind.name: kind for kind in (
    AdaptationKind("GA", "genetic algorithm", deploy_genetically, adapt_genetically),
    AdaptationKind("hybrid", "genetic at first, then greedy", deploy_genetically, adapt_centrally))}
