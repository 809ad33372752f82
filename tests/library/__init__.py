"""Tests of the task library: pure algorithms against references, and each type on Spark."""
