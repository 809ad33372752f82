"""Commands of people and scripts at a terminal: `./weir COMMAND`. The commands compose the services of all apps.

Nothing of the site imports it. Read ``workspace.py`` first, which makes the sample workspace, then
``management/commands/submit.py``.
"""
