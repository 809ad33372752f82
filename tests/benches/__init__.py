"""Tests of the measurements' own logic: workloads, traces, what is counted and compared; nothing is measured here."""
