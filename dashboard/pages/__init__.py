"""The pages that people see: views, URLs, template tags, and the JSON of graphs and plots.

Imports the apps' services (to write) and selectors (to read), never their models. Read ``urls.py`` first.
"""
