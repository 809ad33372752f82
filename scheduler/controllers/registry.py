"""Every controller that there is, by name. One that is missing here adapts nothing."""

from __future__ import annotations

from collections.abc import Mapping

from .chaining import Chaining
from .defragmentation import Defragmentation
from .deploying import Deploying
from .isolating import Isolating
from .opening import Opening
from .protocol import Controller
from .remeasuring import Remeasuring

CONTROLLERS: Mapping[str, Controller] = {
    controller.name: controller for controller in (
        Defragmentation(), Chaining(), Deploying(), Isolating(), Opening(), Remeasuring())}
