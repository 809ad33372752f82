"""Management commands: `./weir manage <command>`.

They compose the services of all apps. Read ``commands/sample_workspace.py`` first.
"""
