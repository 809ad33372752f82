"""Latency limits: constraints, their managers, and the remedies where they are violated (paper [5])."""
