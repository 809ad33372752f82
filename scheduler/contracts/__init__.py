"""Contracts: what crosses from one process to another as JSON, as frozen values with one codec.

Desired states, reports, and the offsets and slots that they name. Imports ``scheduler.model`` and pydantic. Read
``codec.py`` first; `./weir docs` makes their JSON Schemas.
"""
