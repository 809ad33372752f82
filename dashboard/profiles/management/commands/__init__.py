"""`./weir profile`: see ``profile.py``."""
