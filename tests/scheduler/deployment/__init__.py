"""Tests of online task deployment."""
