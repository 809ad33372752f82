"""The loop of controllers, in played time. Read ``played_world.py`` first."""
