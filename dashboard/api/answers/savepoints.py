"""Answers about named savepoints."""

from __future__ import annotations

from dashboard.approvals import savepoints_told

from .common import answer_of

NamedSavepoint = answer_of(savepoints_told.NamedSavepoint, name="NamedSavepoint")
SavepointsOfDataflow = answer_of(savepoints_told.SavepointsOfDataflow, name="SavepointsOfDataflow")
