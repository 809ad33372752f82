"""Elastic dataflows on machines that are rented: the problem, and what is played of it."""
