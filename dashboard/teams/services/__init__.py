"""Commands on people, teams, secrets and API tokens. Each enters ``audited``.

Imports the models, permissions and selectors beside it. Read ``memberships.py`` first.
"""

from dashboard.teams.account_errors import InvalidValue, LastAdmin
from dashboard.teams.services.calendars import delete_calendar, set_calendar
from dashboard.teams.services.memberships import (
    LONGEST_SECRET,
    SecretInUse,
    create_team,
    create_user,
    delete_secret,
    remove_member,
    set_containment,
    set_freshness,
    set_role,
    set_secret,
)
from dashboard.teams.services.people import change_password, deactivate, reactivate
from dashboard.teams.services.signing_on import Identity, link, sign_on
from dashboard.teams.services.tokens import create_token, revoke_token

__all__ = [
    "LONGEST_SECRET", "Identity", "InvalidValue", "LastAdmin", "SecretInUse", "change_password", "create_team",
    "create_token", "create_user", "deactivate", "delete_calendar", "delete_secret", "link", "reactivate",
    "remove_member", "revoke_token", "set_calendar", "set_containment", "set_freshness", "set_role", "set_secret",
    "sign_on",
]
