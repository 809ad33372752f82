"""Alerting in values."""
