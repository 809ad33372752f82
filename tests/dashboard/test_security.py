"""Headers, log-in throttle, error pages."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import uvicorn
from django.core.checks import Tags, run_checks
from django.test import Client
from django.utils import timezone

from dashboard.config.environment import ROOT
from dashboard.teams.logins import forget_old_failures
from dashboard.teams.models import LoginFailure
from tests.cases import each
from tests.dashboard.building import PASSWORD, World
from workers.launcher.up_services import UpOptions, web


def policy_of(response) -> dict[str, list[str]]:
    parts = (part.split() for part in response["Content-Security-Policy"].split(";"))
    return {name: values for name, *values in parts}


@pytest.mark.parametrize("path", [
    "/login/", "/api/me", "/nothing", "/live/snapshot?topic=estate", "/static/css/base.css"])
def test_every_response_has_the_strict_policy(db, path: str):
    response = Client().get(path)
    policy = policy_of(response)
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["connect-src"] == ["'self'"]
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == policy["worker-src"] == ["'none'"]
    unsafe = {"'unsafe-inline'", "'unsafe-eval'", "*", "http:", "https:"}
    assert not unsafe & {value for values in policy.values() for value in values}


def test_the_other_headers(db):
    response = Client().get("/login/")
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"


def test_session_and_csrf_cookies(world: World):
    client = Client()
    client.get("/login/")
    client.post("/login/", {"username": "ana", "password": PASSWORD})
    session, csrf = client.cookies["weir_session"], client.cookies["weir_csrf"]
    assert (session["httponly"], session["samesite"], csrf["samesite"]) == (True, "Lax", "Lax")


def log_in(client: Client, username: str, password: str):
    return client.post("/login/", {"username": username, "password": password})


def logged_in(client: Client) -> bool:
    return client.get("/api/me").status_code == 200


def test_too_many_failures_lock_a_name_out_even_with_the_right_password(world: World, settings):
    client = Client()
    for _ in range(settings.LOGIN_FAILURES_ALLOWED):
        assert log_in(client, "ana", "wrong").status_code == 200
    refused = log_in(client, "ana", PASSWORD)
    assert (refused.status_code, logged_in(client)) == (429, False)
    other = Client(REMOTE_ADDR="10.0.0.9")
    log_in(other, "ben", PASSWORD)
    assert logged_in(other)


def test_who_has_somebodys_session_guesses_at_the_password_no_longer_than_at_the_log_in_page(world: World, settings):
    def change(old: str) -> int:
        return client.post("/password/", {
            "old_password": old, "new_password1": "another-horse-9", "new_password2": "another-horse-9"}).status_code

    client = Client()
    log_in(client, "ana", PASSWORD)
    for _ in range(settings.LOGIN_FAILURES_ALLOWED):
        assert change("wrong") == 200
    assert change(PASSWORD) == 429
    world.ana.refresh_from_db()
    assert world.ana.check_password(PASSWORD) and logged_in(client)
    LoginFailure.objects.all().delete()
    assert change(PASSWORD) == 302


def elsewhere(n: int) -> Client:
    return Client(REMOTE_ADDR=f"10.1.0.{n}")


def test_who_guesses_at_a_name_stops_himself_alone(world: World, settings):
    for _ in range(settings.LOGIN_FAILURES_ALLOWED):
        log_in(elsewhere(1), "ana", "wrong")
    assert log_in(elsewhere(1), "ana", PASSWORD).status_code == 429
    ana = elsewhere(2)
    log_in(ana, "ana", PASSWORD)
    assert logged_in(ana)
    assert log_in(elsewhere(1), "ana", PASSWORD).status_code == 429, "her log-in sets nobody else free"


def test_from_many_addresses_a_name_is_guessed_at_for_as_long_as_from_few(world: World, settings):
    ana = elsewhere(1)
    log_in(ana, "ana", PASSWORD)
    ana.post("/logout/")
    for n in range(settings.LOGIN_FAILURES_ALLOWED_BY_NAME):
        assert log_in(elsewhere(10 + n), "ana", "wrong").status_code == 200
    assert log_in(elsewhere(99), "ana", PASSWORD).status_code == 429
    log_in(ana, "ana", PASSWORD)  # her device is known
    assert logged_in(ana)


def test_a_known_device_guesses_no_more_than_others_and_at_no_other_name(world: World, settings):
    device = elsewhere(1)
    log_in(device, "ana", PASSWORD)
    device.post("/logout/")
    for _ in range(settings.LOGIN_FAILURES_ALLOWED):
        log_in(device, "ana", "wrong")
    assert log_in(device, "ana", PASSWORD).status_code == 429
    for _ in range(settings.LOGIN_FAILURES_ALLOWED):
        log_in(device, "ben", "wrong")
    assert log_in(device, "ben", PASSWORD).status_code == 429


@each("cookie", ["", "x", "WyJhbmEiLCJ4Il0:1:x", "\"", "a" * 5000])
def test_a_device_that_says_so_itself_is_not_known(world: World, settings, cookie: str):
    for _ in range(settings.LOGIN_FAILURES_ALLOWED):
        client = elsewhere(1)
        client.cookies["weir_device"] = cookie
        assert log_in(client, "ana", "wrong").status_code == 200
    client = elsewhere(1)
    client.cookies["weir_device"] = cookie
    assert log_in(client, "ana", PASSWORD).status_code == 429


def test_the_lock_ends(world: World, settings):
    client = Client()
    for _ in range(settings.LOGIN_FAILURES_ALLOWED):
        log_in(client, "ana", "wrong")
    LoginFailure.objects.update(at=timezone.now() - timedelta(seconds=settings.LOGIN_WINDOW_S + 1))
    log_in(client, "ana", PASSWORD)
    assert logged_in(client)


def test_a_log_in_forgets_the_failures_of_its_name(world: World, settings):
    for _ in range(3):
        for _ in range(settings.LOGIN_FAILURES_ALLOWED - 1):
            log_in(Client(), "ana", "wrong")
        client = Client()
        log_in(client, "ana", PASSWORD)
        assert logged_in(client)


def test_many_names_from_one_address_are_throttled_too(world: World, settings):
    for n in range(settings.LOGIN_FAILURES_ALLOWED_BY_ADDRESS):
        log_in(Client(), f"name{n}", "wrong")
    assert log_in(Client(), "another", "wrong").status_code == 429


def test_old_failures_are_forgotten(db, settings):
    now = timezone.now()
    for age_s in (1, settings.LOGIN_WINDOW_S + 60):
        LoginFailure.objects.create(username="x", address="", at=now - timedelta(seconds=age_s))
    assert (forget_old_failures(now), LoginFailure.objects.count()) == (1, 1)


@pytest.mark.parametrize("username", ["\0", "x" * 5000, "é", ""])
def test_strange_names_are_no_500(db, username: str):
    assert log_in(Client(), username, "x").status_code < 500


@pytest.mark.parametrize(("path", "status"), [("/nothing/here", 404), ("/?q=%00", 400), ("/dataflows/nope/", 404)])
def test_error_pages_are_pages(db, path: str, status: int):
    response = Client(raise_request_exception=False).get(path)
    assert response.status_code == status
    assert response["Content-Type"].startswith("text/html")
    assert b"<!doctype html>" in response.content.lower()


def test_a_host_that_is_not_ours_is_refused(db, settings):
    settings.ALLOWED_HOSTS = ["weir.example"]
    assert Client().get("/login/", headers={"host": "evil.example"}).status_code == 400


def test_a_body_over_the_limit_is_refused_before_it_is_read(world: World):
    client = Client()
    client.force_login(world.carla)
    response = client.post("/dataflows/new", {"text": "x" * 3_000_000})
    assert response.status_code == 413


@pytest.mark.parametrize("path", ["/", "/dataflows/", "/api/me", "/api/estate", "/profiles.csv", "/login/", "/nothing"])
def test_no_cache_keeps_what_somebody_saw(world: World, path: str):
    client = Client()
    client.force_login(world.carla)
    assert "no-store" in client.get(path)["Cache-Control"]


def test_static_files_are_still_kept(db):
    assert "no-store" not in Client().get("/static/css/base.css").get("Cache-Control", "")


def test_behind_https_djangos_deployment_checks_have_nothing_to_say(tmp_path):
    environment = os.environ | {
        "WEIR_HTTPS": "1", "WEIR_DATA_DIR": str(tmp_path), "FORWARDED_ALLOW_IPS": "127.0.0.1"}
    done = subprocess.run(
        (sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"), cwd=ROOT, env=environment,
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("https", "addresses", "count"), [
    (True, "", 1), (True, "10.0.0.7", 0), (False, "", 0)])
def test_a_proxy_that_nobody_names_is_warned_of(settings, https: bool, addresses: str, count: int):
    """Behind one on another machine, failed log-ins of one visitor would stop all."""
    settings.HTTPS, settings.PROXY_ADDRESSES = https, addresses
    messages = run_checks(tags=[Tags.security], include_deployment_checks=True)
    warnings = [message for message in messages if "FORWARDED_ALLOW_IPS" in message.msg]
    assert len(warnings) == count and all("127.0.0.1" in warning.hint for warning in warnings)


@pytest.mark.parametrize(("behind_proxy", "flag"), [(False, "--no-proxy-headers"), (True, "--proxy-headers")])
def test_who_asks_is_said_by_a_proxy_alone(behind_proxy: bool, flag: str):
    options = UpOptions("127.0.0.1", 1, 1, "n1", Path())
    argv = web(options, behind_proxy=behind_proxy).argv
    assert uvicorn.main.make_context("uvicorn", list(argv[4:])).params["proxy_headers"] is behind_proxy and flag in argv
