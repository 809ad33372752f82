"""Every controller that there is, by name. One that is missing here adapts nothing."""

from __future__ import annotations

from collections.abc import Mapping

from .alternate_adaptation import Adapting
from .batch_opening import BatchOpening
from .chaining import Chaining
from .controller_port import Controller
from .defragmentation import Defragmentation
from .deploying import Deploying
from .remeasuring import Remeasuring
from .task_isolation import Isolating

CONTROLLERS: Mapping[str, Controller] = {
    controller.name: controller for controller in (
        Defragmentation(), Chaining(), Deploying(), Isolating(), BatchOpening(), Adapting(), Remeasuring())}
