"""Every controller that there is, with the module that collects its evidence. One that is missing adapts nothing."""

from __future__ import annotations

from collections.abc import Mapping

from .alternate_adaptation import Adapting
from .batch_opening import BatchOpening
from .chaining import Chaining
from .controller_port import Controller
from .defragmentation import Defragmentation
from .deploying import Deploying
from .evidence import adaptations, chains, deployments, fusions, mode_evidence, profile_evidence, slow_tasks
from .evidence.world import Collector, World
from .remeasuring import Remeasuring
from .task_isolation import Isolating

_WITH_EVIDENCE = (
    (Defragmentation(), fusions), (Chaining(), chains), (Deploying(), deployments), (Isolating(), slow_tasks),
    (BatchOpening(), mode_evidence), (Adapting(), adaptations), (Remeasuring(), profile_evidence))

CONTROLLERS: Mapping[str, Controller] = {controller.name: controller for controller, _ in _WITH_EVIDENCE}
BY_GOALS = next(controller for controller in CONTROLLERS.values() if controller.follows_goals)
# By what their controllers read: evidence is computed from values alone.
PURE_COLLECTORS: Mapping[str, Collector[World]] = {
    controller.reads: Collector(module.evidence, module.frames, module.effect)
    for controller, module in _WITH_EVIDENCE}
