"""The dataflows that traces submit and remove: RIoTBench's, permuted, and public scientific workflows.

Imports the model of `scheduler` and the declarations of `workers.library`. Read ``riotbench.py`` first.
"""
