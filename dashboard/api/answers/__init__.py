"""Answers of the API: one schema for every body, from which the OpenAPI document is made.

What the site has as a typed value is answered as that stands (`answer_of`); others are declared here. A field that an
answer has and its schema lacks is an error, so the document cannot fall behind. Read ``common.py`` first.
"""
