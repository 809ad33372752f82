"""What groups of single sign-on give, and the settings that say so."""

from __future__ import annotations

import pytest

from dashboard.config.environment import Environment, InvalidSetting
from dashboard.teams.groups import grant_of, granted


@pytest.mark.parametrize("entry", [
    "eng", "eng:city", ":city:viewer", "eng::viewer", "eng:city:boss", "eng:*:admin", "eng:city:administrator"])
def test_what_is_no_entry_is_named(entry: str):
    with pytest.raises(InvalidSetting) as caught:
        Environment({"WEIR_OIDC_ROLES": entry}).grants()
    assert caught.value.facts["setting"] == "WEIR_OIDC_ROLES"


@pytest.mark.parametrize("issuer", ["http://id.example.org", "id.example.org", "ftp://x"])
def test_an_issuer_by_plain_http_is_refused(issuer: str):
    with pytest.raises(InvalidSetting):
        Environment({"WEIR_OIDC_ISSUER": issuer, "WEIR_OIDC_CLIENT_ID": "weir"}).issuer()


def test_of_several_roles_the_highest_counts():
    grants = [grant_of(entry) for entry in (
        "eng:city:engineer", "leads:city:approver", "team:x:mobility:viewer", "ops:*:administrator")]
    assert granted(grants, ["leads", "eng"]).roles == {"city": "approver", "mobility": None}
    assert granted(grants, ["team:x"]).roles == {"city": None, "mobility": "viewer"}
    assert granted(grants, ["ops"]).administrator is True and granted(grants, []).administrator is False
    assert granted(grants[:2], []).administrator is None and not granted(grants, ["city"]).any
