"""Django's settings. What the environment can change is declared in ``environment.py``."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

import dj_database_url

from dashboard.config.broker_addresses import celery_address, layer_address
from dashboard.config.environment import ROOT, Environment, InvalidSetting
from dashboard.config.site_logs import logging_config
from dashboard.teams.groups import providers
from scheduler.model import bounds

ENVIRONMENT = Environment()

# Weir's own settings -------------------------------------------------------------------------------------------------
DATA_DIR = ENVIRONMENT.data_dir()
REDIS_URL = ENVIRONMENT.redis_url()
# The rest of Celery's configuration is no choice: dashboard/queue.py
CELERY_BROKER_URL, QUEUE_ADDRESS_OPTIONS = celery_address(REDIS_URL)
SELF_APPROVAL = ENVIRONMENT.flag("WEIR_SELF_APPROVAL")
LOCAL_NODE = ENVIRONMENT.text("WEIR_NODE")
LOCAL_SLOTS = ENVIRONMENT.integer("WEIR_SLOTS", minimum=1)
DISK_FREE_MB = ENVIRONMENT.integer("WEIR_DISK_FREE_MB", minimum=0)
AUDIT_KEEP_DAYS = ENVIRONMENT.integer("WEIR_AUDIT_KEEP_DAYS", minimum=0)
PLANS_KEEP_DAYS = ENVIRONMENT.integer("WEIR_PLANS_KEEP_DAYS", minimum=0)
TRIALS_KEEP_DAYS = ENVIRONMENT.integer("WEIR_TRIALS_KEEP_DAYS", minimum=0)
COPY_S = ENVIRONMENT.number("WEIR_COPY_S", minimum=0.1)
NODE_LOST_S = ENVIRONMENT.number("WEIR_NODE_LOST_S", minimum=0.4)
HOLD_S = ENVIRONMENT.number("WEIR_HOLD_S", minimum=0.0)
ISOLATES = ENVIRONMENT.flag("WEIR_ISOLATE")
TRIGGER_MS = ENVIRONMENT.integer("WEIR_TRIGGER_MS", minimum=1)
PACING = ENVIRONMENT.choice("WEIR_PACING", "planned", "steps")
TENANCY = ENVIRONMENT.choice("WEIR_TENANCY", "shared", "team")
ADAPTATION = ENVIRONMENT.choice("WEIR_ADAPTATION", "CE", "local", "SH", "WAAF", "WPA", "PLAStiCC")
REAL_TIME = ENVIRONMENT.flag("WEIR_REAL_TIME")
LONGEST_TRIGGER_MS = ENVIRONMENT.integer("WEIR_LONGEST_TRIGGER_MS", minimum=20)
CORE_HOUR_PRICE = ENVIRONMENT.number("WEIR_CORE_HOUR_PRICE", minimum=0.0)
VM_SIZES = ENVIRONMENT.vm_sizes()
MACHINE_COMMAND = ENVIRONMENT.machine_command()
MACHINE_WEBHOOK = ENVIRONMENT.machine_webhook()
MACHINE_KEY = ENVIRONMENT.text("WEIR_MACHINE_KEY")
MACHINE_SLOTS = ENVIRONMENT.integer("WEIR_MACHINE_SLOTS", minimum=0)
MACHINE_PRICE = ENVIRONMENT.number("WEIR_MACHINE_PRICE", minimum=0.0)
MACHINE_REPORT_S = ENVIRONMENT.number("WEIR_MACHINE_REPORT_S", minimum=1.0)
NODE_SIZES = ENVIRONMENT.node_sizes()
NODE_RACKS = ENVIRONMENT.node_racks()
DEFRAGMENT_HORIZON_H = ENVIRONMENT.number("WEIR_DEFRAGMENT_HORIZON_H", minimum=0.0)
DEFRAGMENT_RATIO = ENVIRONMENT.number("WEIR_DEFRAGMENT_RATIO", minimum=0.0)
DEFRAGMENT_GAP_S = ENVIRONMENT.number("WEIR_DEFRAGMENT_GAP_S", minimum=0.0)
DEFRAGMENT_CORE_S = ENVIRONMENT.number("WEIR_DEFRAGMENT_CORE_S", minimum=0.0)
DEPLOYMENT_LEAST_KB_S = ENVIRONMENT.number("WEIR_DEPLOYMENT_LEAST_KB_S", minimum=0.0)
EVENT_DELAY_PRICE = ENVIRONMENT.number("WEIR_EVENT_DELAY_PRICE", minimum=0.0)
MEMORY_GB_HOUR_PRICE = ENVIRONMENT.number("WEIR_MEMORY_GB_HOUR_PRICE", minimum=0.0)
TRAFFIC_GB_PRICE = ENVIRONMENT.number("WEIR_TRAFFIC_GB_PRICE", minimum=0.0)
SPILL_GB_HOUR_PRICE = ENVIRONMENT.number("WEIR_SPILL_GB_HOUR_PRICE", minimum=0.0)
CURRENCY = ENVIRONMENT.text("WEIR_CURRENCY")
DOCUMENT_LIMIT_BYTES = bounds.DOCUMENT_BYTES.most
INGEST_LIMIT_BYTES = ENVIRONMENT.integer("WEIR_INGEST_MB", minimum=1) * bounds.INGEST_BODY.scale
INGEST_EVENTS = ENVIRONMENT.integer("WEIR_INGEST_EVENTS", minimum=1)
ANONYMOUS_BYTES = ENVIRONMENT.integer("WEIR_ANONYMOUS_KB", minimum=1) * bounds.ANONYMOUS_BODY.scale
CONNECTIONS = ENVIRONMENT.integer("WEIR_CONNECTIONS", minimum=1)
HEADER_WAIT_S = ENVIRONMENT.number("WEIR_HEADER_WAIT_S", minimum=0.1)
BODY_WAIT_S = ENVIRONMENT.number("WEIR_BODY_WAIT_S", minimum=0.1)
LIVE_CONNECTIONS = ENVIRONMENT.integer("WEIR_LIVE_CONNECTIONS", minimum=1)
TEAM_PROPOSALS = ENVIRONMENT.integer("WEIR_TEAM_PROPOSALS", minimum=1)
TEAM_PLANS_PER_H = ENVIRONMENT.integer("WEIR_TEAM_PLANS_PER_H", minimum=1)
TEAM_TASKS = ENVIRONMENT.integer("WEIR_TEAM_TASKS", minimum=1)
TEAM_CONNECTIONS = ENVIRONMENT.integer("WEIR_TEAM_CONNECTIONS", minimum=1)
TEAM_EVENTS_PER_H = ENVIRONMENT.integer("WEIR_TEAM_EVENTS_PER_H", minimum=0)
TEAM_WEBHOOKS = ENVIRONMENT.integer("WEIR_TEAM_WEBHOOKS", minimum=0)
TEAM_SWEEPS = ENVIRONMENT.integer("WEIR_TEAM_SWEEPS", minimum=1)
TEAM_SAVEPOINTS = ENVIRONMENT.integer("WEIR_TEAM_SAVEPOINTS", minimum=0)
SITE_URL = ENVIRONMENT.http_url("WEIR_SITE_URL")
DIGEST_HOUR = ENVIRONMENT.integer("WEIR_DIGEST_HOUR", minimum=0, maximum=23)
DELIVERY_S = ENVIRONMENT.number("WEIR_DELIVERY_S", minimum=0.1)
WEBHOOK_HOSTS = ENVIRONMENT.words("WEIR_WEBHOOK_HOSTS")
METRICS_TOKEN = ENVIRONMENT.text("WEIR_METRICS_TOKEN")
OPENLINEAGE_URL = ENVIRONMENT.http_url("WEIR_OPENLINEAGE_URL")
OPENLINEAGE_KEY = ENVIRONMENT.text("WEIR_OPENLINEAGE_KEY")
OPENLINEAGE_NAMESPACE = ENVIRONMENT.text("WEIR_OPENLINEAGE_NAMESPACE")
TOKEN_DAYS = ENVIRONMENT.integer("WEIR_TOKEN_DAYS", minimum=1)
TOKEN_LONGEST_DAYS = ENVIRONMENT.integer("WEIR_TOKEN_LONGEST_DAYS", minimum=1)
OIDC_ISSUER = ENVIRONMENT.issuer()
OIDC_LABEL = ENVIRONMENT.text("WEIR_OIDC_LABEL")
OIDC_NAME_CLAIM = ENVIRONMENT.text("WEIR_OIDC_NAME_CLAIM")
OIDC_GROUPS_CLAIM = ENVIRONMENT.text("WEIR_OIDC_GROUPS_CLAIM")
OIDC_ROLES = ENVIRONMENT.grants()
OIDC_SESSION_H = ENVIRONMENT.number("WEIR_OIDC_SESSION_H", minimum=0.1)
LOGIN_FAILURES_ALLOWED = 8  # for one user name from one device or address, within the window
LOGIN_FAILURES_ALLOWED_BY_NAME = 20  # from all addresses; devices that are known by the name go on
LOGIN_FAILURES_ALLOWED_BY_ADDRESS = 40
LOGIN_WINDOW_S = 900


def _secret_key() -> str:
    """The environment's key, or one generated once and kept where only this user can read it."""
    secret_key = ENVIRONMENT.text("WEIR_SECRET_KEY")
    if secret_key:
        return secret_key
    path = DATA_DIR / "secret_key"
    try:
        DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        # O_EXCL: of two processes that start together, one writes and both read the same key.
        with suppress(FileExistsError), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
            f.write(secrets.token_urlsafe(50))
        return path.read_text()
    except OSError as error:
        raise InvalidSetting(
            f"The data folder {DATA_DIR} cannot be used: {error.strerror}.", remedy="Name another in WEIR_DATA_DIR.",
        ) from None


def _database() -> dict[str, object]:
    if url := ENVIRONMENT.database_url():
        return dict(dj_database_url.parse(url, conn_max_age=60, conn_health_checks=True))
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(DATA_DIR / "weir.sqlite3"),
        "OPTIONS": {
            # A transaction takes the write lock when it begins: two writers queue instead of one failing half-way.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,  # seconds for which a writer waits for others, as `core.database.LONGEST_WAIT_S`
            # The log shrinks after a burst. Nothing here may need the write lock: each page opens a connection.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY; "
                            "PRAGMA journal_size_limit=16777216;",
        },
    }


# Django --------------------------------------------------------------------------------------------------------------
SECRET_KEY = _secret_key()
DEBUG = ENVIRONMENT.flag("WEIR_DEBUG")
ALLOWED_HOSTS = ENVIRONMENT.words("WEIR_ALLOWED_HOSTS")
ROOT_URLCONF = "dashboard.config.urls"
ASGI_APPLICATION = "dashboard.config.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": _database()}
AUTH_USER_MODEL = "teams.User"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
APPEND_SLASH = False  # Slashes does it, both ways and for pages alone

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "django_htmx",
    "channels",
    "dashboard.core",
    "dashboard.teams",
    "dashboard.audit",
    "dashboard.history",
    "dashboard.outbox",
    "dashboard.catalog",
    "dashboard.operations",
    "dashboard.savepoint_records",
    "dashboard.plans",
    "dashboard.controllers",
    "dashboard.approvals",
    "dashboard.schedules",
    "dashboard.bills",
    "dashboard.profiles",
    "dashboard.simulations",
    "dashboard.alerts",
    "dashboard.lineage",
    "dashboard.api",
    "dashboard.live",
    "dashboard.pages",
    "dashboard.commands",
]

MIDDLEWARE = [
    "dashboard.core.middleware.ContentSecurityPolicy",  # first: for static files, too
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dashboard.core.middleware.NotStored",  # behind static files, which are kept
    # Random bytes in each answer hide how long its text is (BREACH); tokens of forms are masked anew each time.
    "django.middleware.gzip.GZipMiddleware",
    "dashboard.core.middleware.RequestLimits",
    "dashboard.core.middleware.Slashes",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.core.middleware.Errors",
    "dashboard.teams.viewer_middleware.CurrentViewer",
    "dashboard.teams.viewer_middleware.LogInFirst",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

STATIC_URL = "/static/"
STATICFILES_DIRS = [ROOT / "static"]
# The launcher collects static files, hashed and compressed, into the data folder. Without that step the site serves
# them by their plain names through finders.
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "dashboard.core.static_files.HashedFiles"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_ALLOW_ALL_ORIGINS = False

AUTHENTICATION_BACKENDS = ["dashboard.teams.logins.ThrottledBackend"]
# allauth speaks OpenID Connect, and none of its own pages, forms or mails is there: dashboard/teams/sign_on.py.
SOCIALACCOUNT_ADAPTER = "dashboard.teams.sign_on.SignOnAdapter"
SOCIALACCOUNT_PROVIDERS = providers(
    issuer=OIDC_ISSUER, client_id=ENVIRONMENT.text("WEIR_OIDC_CLIENT_ID"),
    secret=ENVIRONMENT.text("WEIR_OIDC_CLIENT_SECRET"), scopes=ENVIRONMENT.text("WEIR_OIDC_SCOPES").split())
SOCIALACCOUNT_STORE_TOKENS = False
ACCOUNT_EMAIL_VERIFICATION = "none"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

# Security ------------------------------------------------------------------------------------------------------------
HTTPS = ENVIRONMENT.flag("WEIR_HTTPS")
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if HTTPS else "http"
SESSION_COOKIE_NAME = "weir_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = HTTPS
SESSION_COOKIE_AGE = 14 * 24 * 3600
CSRF_COOKIE_NAME = "weir_csrf"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = HTTPS
CSRF_FAILURE_VIEW = "dashboard.core.http_errors.csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
PROXY_ADDRESSES = ENVIRONMENT.text("FORWARDED_ALLOW_IPS")  # uvicorn reads it, too
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
# Of the host's subdomains, and of a list that browsers ship, Weir does not decide: that is the domain's owner's.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = bounds.REQUEST_BODY.most  # the document, and the form around it
FILE_UPLOAD_MAX_MEMORY_SIZE = DATA_UPLOAD_MAX_MEMORY_SIZE
DATA_UPLOAD_MAX_NUMBER_FIELDS = bounds.REQUEST_FIELDS.most
DATA_UPLOAD_MAX_NUMBER_FILES = bounds.REQUEST_FILES.most

# Mail ----------------------------------------------------------------------------------------------------------------
globals().update(ENVIRONMENT.email())
DEFAULT_FROM_EMAIL = ENVIRONMENT.text("WEIR_EMAIL_FROM")

# Live ----------------------------------------------------------------------------------------------------------------
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # redis-py caps a pool at 100 connections unless told.
        "CONFIG": {"hosts": [{**layer_address(REDIS_URL), "max_connections": 500}], "prefix": "weir:layer"},
    },
}

LOGGING_CONFIG = None
LOGGING = logging_config(level=ENVIRONMENT.text("WEIR_LOG_LEVEL").upper())
