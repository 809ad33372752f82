"""The scores of paper [4], by which moves are judged here from the definition."""

from __future__ import annotations

from scheduler.deployment.deployed_bundles import Deployment


def allocation_score(deployment: Deployment, bundle: str, node: str) -> float:
    """AS of a bundle on a node: what would pass within the node, less what would pass between nodes (equation 4)."""
    by_node = deployment.by_node(bundle)
    within = by_node.get(node, 0.0)
    return within - (sum(by_node.values()) - within)


def score_change(deployment: Deployment, bundle: str, node: str) -> float:
    """ASC of moving a bundle to a node: what would then pass within nodes more than now (equation 5)."""
    by_node = deployment.by_node(bundle)
    return by_node.get(node, 0.0) - by_node.get(deployment.nodes[bundle], 0.0)
