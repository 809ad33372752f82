"""After which time a fragment is looked at again, and how long what is left behind stays."""

from __future__ import annotations

HURRIED_MS = 500  # batches of what is ending are no further apart: others wait for it
HASTE_MS = 100  # no further, where keys stand still until what has come is read
STANDBY_MS = 60_000  # how long a handover waits for the next of those that shall take over to stand by
TICK_MS = 500  # how often a slot looks by itself at what it runs
SOON_MS = 30  # while a handover is under way, every moment counts
QUICK_MS = 10  # while nothing works at what is handed over
RETRY_MS = 250  # for what others must have done before
LEAVE_MS = 500  # whether a leaving bundle has read all
FAILED_ACTION_MS = 1_000
ACTIVATE_AFTER_MS = 2_500  # in which batches with events bring a route into force
SELDOM_MS = 3_000  # for channels that may never open
REPEAT_MS = 600_000  # for a batch that is under way before a query comes to rest; one that takes longer may hang
POLL_MS = 100  # how often Spark asks the sources of a query at rest, which wait for what they have to do
FILES_EVERY_MS = 5_000
METERS_KEPT_S = 60
PARTS_KEPT_S = 2 * 3600  # longer than a checkpoint that was removed, which may go on from there
OUTPUTS_KEPT_S = 24 * 3600  # what a removed dataflow delivered stays browsable
