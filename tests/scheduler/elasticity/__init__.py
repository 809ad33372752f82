"""Tests of what decides about keyed state on a ring."""
