"""`./weir up`: one process that starts the whole system, restarts what dies and leaves nothing behind.

Imports nothing else of Weir but ``workers.processes``; the parts are child processes.
Read ``__main__.py`` first, then ``up_services.py`` (what is started) and ``supervise.py`` (how it is kept running).
"""
