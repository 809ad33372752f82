"""The check of the installation that ``check --deploy`` makes beside Django's own."""

from __future__ import annotations

from django.conf import settings
from django.core.checks import Tags, Warning, register


@register(Tags.security, deploy=True)
def proxies_are_named(**_: object) -> list[Warning]:
    """A warning where the site is behind a proxy, and nothing says on which machine that is."""
    if not settings.HTTPS or settings.PROXY_ADDRESSES:
        return []
    return [Warning(
        "FORWARDED_ALLOW_IPS is not set. Behind a proxy on another machine all visitors have the proxy's address, and "
        f"{settings.LOGIN_FAILURES_ALLOWED_BY_ADDRESS} failed log-ins stop everybody whose device is new.",
        hint="Set it to the proxy's address; to 127.0.0.1 where the proxy is on this machine.", id="weir.W001")]
