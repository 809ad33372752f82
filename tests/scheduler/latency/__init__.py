"""Limits of latency: constraints, managers, reactions and intervals."""
