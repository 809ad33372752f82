"""The routes of nodes that are drained for maintenance. ``docs/api.md`` describes them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest
from ninja import Router

from dashboard.api.answers.common import row_of
from dashboard.api.answers.deployment import DrainAnswer
from dashboard.approvals.drains import Drain as StateOfNode
from dashboard.approvals.drains import drain_of
from dashboard.operations.services import drain_node, undrain_node

router = Router()


@router.get("/nodes/{str:node}/drain", response=DrainAnswer)
def drain_state(request: HttpRequest, node: str) -> dict[str, Any]:
    """The state of a drain, and the queries on the node: each query that the caller may know of, why it stays, and what
    holds it."""
    return drain_row(drain_of(node, request.viewer))


@router.post("/nodes/{str:node}/drain", response=DrainAnswer)
def drain(request: HttpRequest, node: str) -> dict[str, Any]:
    """Place nothing new on a node, and let what can move leave it, one query after the other; by an administrator."""
    drain_node(name=node, actor=request.user)
    return drain_row(drain_of(node, request.viewer))


@router.post("/nodes/{str:node}/undrain", response=DrainAnswer)
def undrain(request: HttpRequest, node: str) -> dict[str, Any]:
    """Use a node again as any other; what has left stays where it is. By an administrator."""
    undrain_node(name=node, actor=request.user)
    return drain_row(drain_of(node, request.viewer))


def drain_row(state: StateOfNode) -> dict[str, Any]:
    """The queries on a node as the API gives them."""
    return row_of(DrainAnswer, state, queries=[asdict(query) for query in state.queries])
