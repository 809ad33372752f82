"""Profiles in the site: stored and looked up, imported, measured by sweeps, held to what runs. Read conftest first."""
