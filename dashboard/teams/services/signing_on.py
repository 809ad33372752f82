"""People who sign on at a provider of OpenID Connect: who they are here, and what their groups give them."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.exceptions import ValidationError

from dashboard.audit.trail import Audit, audited
from dashboard.core.access_events import access_changed
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.groups import Granted, granted
from dashboard.teams.models import Membership, Role, Team, User
from dashboard.teams.permissions import require_superuser, viewer_of
from dashboard.teams.selectors import is_last_administrator, person
from scheduler.model.errors import PermissionDenied
from scheduler.model.lookalikes import skeleton
from scheduler.model.names import folded, require_one_alphabet, require_plain

LONGEST_SUBJECT = 191  # what allauth's table keeps


@dataclass(frozen=True, slots=True)
class Identity:
    """Provider's statement about a person: who by its own name (``subject``), what to be called here, the groups."""

    issuer: str
    subject: str
    name: str
    groups: Sequence[str]

    def __post_init__(self) -> None:
        if not 0 < len(self.subject) <= LONGEST_SUBJECT or "\0" in self.subject:
            raise InvalidValue(
                "The provider gives no name for you that can be stored.",
                remedy="Tell the operator of this installation.")


def sign_on(identity: Identity) -> User:
    """The user that somebody is here, with the roles that the groups give: made where there is none yet.

    Nobody becomes a user who is there by having the same name: an administrator links the two (`link`).
    """
    grants = granted(settings.OIDC_ROLES, identity.groups)
    with audited(actor=None, verb="user.sign_on", takes_rights=True) as audit:
        account = SocialAccount.objects.select_related("user").filter(
            provider=identity.issuer, uid=identity.subject).first()
        is_let_in = grants.any or not settings.OIDC_ROLES
        if account is not None:
            user, is_new = User.objects.select_for_update().get(pk=account.user_id), False
        elif is_let_in:
            user, is_new = _new_user(identity), True
        else:
            raise _not_let_in()
        has_changed = user.is_active and _apply(audit, user, grants)
        audit.subject, audit.details = user, {"username": user.username, "new": is_new}
        if not (is_new or has_changed):
            audit.nothing_changed()
    if not user.is_active:
        raise PermissionDenied(
            f"{user.username} is deactivated here.", remedy="Ask an administrator of this installation.")
    if not is_let_in:  # what the groups gave before is taken away by now
        raise _not_let_in()
    return user


def link(*, actor: User, username: str, subject: str) -> User:
    """Let somebody sign on at the provider as a user who is there; by an administrator of the installation."""
    require_superuser(viewer_of(actor))
    identity = Identity(settings.OIDC_ISSUER, subject.strip(), username, ())
    if not settings.OIDC_ISSUER:
        raise InvalidValue("There is no single sign-on here.", remedy="Set WEIR_OIDC_ISSUER first.")
    with audited(actor=actor, verb="user.link") as audit:
        user = person(viewer_of(actor), username)
        if SocialAccount.objects.filter(provider=identity.issuer, uid=identity.subject).exists():
            raise InvalidValue("Somebody signs on by that subject already.", remedy="See the list of people.")
        SocialAccount.objects.create(user=user, provider=identity.issuer, uid=identity.subject)
        audit.subject, audit.details = user, {"username": user.username, "subject": identity.subject}
        return user


def _new_user(identity: Identity) -> User:
    what = "Your name at the provider"
    name = unicodedata.normalize("NFKC", identity.name).strip()
    require_one_alphabet(require_plain(name, what=what, most=150), what=what)
    _require_no_namesake(name, identity)
    user = User(username=name)
    user.set_unusable_password()
    try:
        user.full_clean()
    except ValidationError as error:
        raise InvalidValue(
            f"{name} cannot be a user's name: {' '.join(error.messages)}",
            remedy="Tell the operator: WEIR_OIDC_NAME_CLAIM says which claim it comes from.") from error
    user.save()
    SocialAccount.objects.create(user=user, provider=identity.issuer, uid=identity.subject)
    return user


def _require_no_namesake(name: str, identity: Identity) -> None:
    """Refuse a name that is somebody's here, or looks so: whoever reads it would take the one for the other."""
    form, looks = folded(name), skeleton(name)

    def link_it(namesake: str) -> str:
        command = shlex.join(["./weir", "person", "link", namesake, identity.subject])  # whatever a shell makes of it
        return f"If that is you, ask an administrator to run `{command}`"

    for namesake in User.objects.values_list("username", flat=True).iterator():
        if folded(namesake) == form:
            raise InvalidValue(
                f"Somebody is called {namesake} here already.", remedy=f"{link_it(namesake)}.")
        if skeleton(namesake) == looks:
            raise InvalidValue(
                f"Your name at the provider, {name}, looks like {namesake}, which somebody is called here.",
                remedy=f"{link_it(namesake)}; else have the provider give you another name.")


def _apply(audit: Audit, user: User, grants: Granted) -> bool:
    """Give what the groups give in teams that they decide about, and take away what they do not; whether anything
    changed."""
    changed = False
    teams = {team.slug: team for team in Team.objects.filter(slug__in=grants.roles)}
    memberships = {member.team_id: member for member in Membership.objects.select_for_update().filter(user=user)}
    for slug, team in sorted(teams.items()):
        name, member = grants.roles[slug], memberships.get(team.pk)
        role = None if name is None else Role[name.upper()]
        if role == (member and member.role):
            continue
        if role is None:
            member.delete()
        else:
            Membership.objects.update_or_create(user=user, team=team, defaults={"role": role})
        audit.also(
            verb="team.set_role" if role else "team.remove_member", subject=team, team=team, user=user.username,
            role=role and role.label, before=member and Role(member.role).label, by="groups")
        changed = True
    if grants.administrator is not None and grants.administrator != user.is_superuser and not (
            user.is_superuser and is_last_administrator(user)):
        user.is_superuser = user.is_staff = grants.administrator
        user.save(update_fields=["is_superuser", "is_staff"])
        audit.also(verb="user.administers", subject=user, team=None, administrator=grants.administrator, by="groups")
        changed = True
    if changed:
        access_changed(user.pk)
    return changed


def _not_let_in() -> PermissionDenied:
    return PermissionDenied(
        "None of your groups may use this installation.", remedy="Ask for a group that may, then sign in again.")
