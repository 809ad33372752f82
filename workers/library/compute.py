"""Work for the CPU alone: a task to measure machines and schedulers with."""

from __future__ import annotations

from scheduler.model.task_types import Parameter, TaskType

PI_VIETE = TaskType(
    name="pi_viete", kind="transform", family="math",
    doc="Computes π by Viète's product for every event: nothing but CPU work, as much as the iterations say.",
    build="workers.library.compute:pi_viete",
    parameters=(
        Parameter("iterations", "integer", "Factors of the product.", default=1600, minimum=1, maximum=10_000_000),
    ),
    cost_us=120,
)

TASK_TYPES = (PI_VIETE,)
