"""Commands on profiles."""
