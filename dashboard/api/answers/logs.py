"""What the API answers of logs."""

from __future__ import annotations

from dashboard.api.answers.common import answer_of
from dashboard.operations.live_view import log_reading as logs

ReadLog = answer_of(logs.ReadLog)
