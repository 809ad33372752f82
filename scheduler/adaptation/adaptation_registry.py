"""The algorithms of adaptation that decide within a step of any size: name, description and function of each.

A new one is a module with its functions and an entry in ``ADAPTATIONS``. One algorithm may deploy, and another adapt.
"""

from __future__ import annotations

from dataclasses import dataclass

from .adaptation_port import AdaptFunction, DeployFunction
from .greedy_adaptation import (
    adapt_by_forecast_mean,
    adapt_by_recent_mean,
    adapt_centrally,
    adapt_optimistically,
    adapt_pessimistically,
    adapt_sharded,
)
from .greedy_deployment import deploy_centrally, deploy_sharded
from .local_search import adapt_by_local_search, deploy_by_local_search
from .look_ahead import adapt_ahead


@dataclass(frozen=True)
class AdaptationKind:
    """An algorithm of adaptation.

    Parameters
    ----------
    deploy : callable
        The initial deployment.
    adapt : callable
        At run time.
    foresees : bool
        True if it uses a forecast.
    """

    name: str
    about: str
    deploy: DeployFunction
    adapt: AdaptFunction
    foresees: bool = False

    def __post_init__(self) -> None:
        if not (self.name and self.about):
            raise ValueError(f"Adaptation {self.name!r} lacks its name or its description")


_ALL = (
    AdaptationKind("SH", "greedy, each task by itself", deploy_sharded, adapt_sharded),
    # What was seen last is expected to last: chapter 5 calls that CAF.
    AdaptationKind("CE", "greedy, all tasks together, by the newest rates", deploy_centrally, adapt_centrally),
    AdaptationKind("WAAF", "greedy, by the mean of the rates so far", deploy_centrally, adapt_by_recent_mean),
    AdaptationKind("WPA", "greedy, by the forecast's mean", deploy_centrally, adapt_by_forecast_mean, foresees=True),
    AdaptationKind("WPO", "greedy, by the best case of the forecast", deploy_centrally, adapt_optimistically,
                   foresees=True),
    AdaptationKind("WPP", "greedy, by the worst case of the forecast", deploy_centrally, adapt_pessimistically,
                   foresees=True),
    AdaptationKind("PLAStiCC", "looks ahead to when the running deployment no longer keeps up", deploy_centrally,
                   adapt_ahead, foresees=True),
    AdaptationKind("local", "local search over alternates, cores by linear programming", deploy_by_local_search,
                   adapt_by_local_search, foresees=True),
)
ADAPTATIONS: dict[str, AdaptationKind] = {kind.name: kind for kind in _ALL}
