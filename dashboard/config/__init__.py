"""The composition of the site: the environment, Django's settings, the URLs and the ASGI application.

Imports nothing of Weir but the apps that it names. Read ``environment.py`` first.
"""
