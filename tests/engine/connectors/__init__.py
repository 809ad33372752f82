"""Connectors: formats, the intake, and one suite of promises that each of them is held to with a real server."""
