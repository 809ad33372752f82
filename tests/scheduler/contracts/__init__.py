"""Tests of the contracts: JSON of every version reads, and what is written reads back.

May import scheduler.
"""
