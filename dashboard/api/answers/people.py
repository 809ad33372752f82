"""Answers of the API on people and API tokens."""

from __future__ import annotations

from dashboard.api.answers.common import Answer


class TokenRow(Answer):
    """An API token: what it lets a program do (``scope``), until when (null: without an end), when it was used last."""

    id: int
    name: str
    scope: str
    created: str
    expires: str | None
    last_used: str | None
    ended: bool


class Token(TokenRow):
    """A new API token; its secret is shown this once."""

    secret: str


class Person(Answer):
    """A person who may log in, or could: roles by the team's short name, and API tokens."""

    username: str
    active: bool
    administrator: bool
    roles: dict[str, str]
    last_login: str | None
    signs_on_elsewhere: bool
    tokens: list[TokenRow]
