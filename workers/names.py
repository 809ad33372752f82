"""Names of Celery tasks and of the queue, so that who sends a task need not import it."""

QUEUE = "weir"

PREPARE_PROPOSAL = "weir.prepare_proposal"
ENACT = "weir.enact"
ADVANCE_PROPOSALS = "weir.advance_proposals"
REPUBLISH_DESIRED = "weir.republish_desired"
RECORD_OBSERVATIONS = "weir.record_observations"
OBSERVE_PROFILES = "weir.observe_profiles"
ADVANCE_SWEEPS = "weir.advance_sweeps"
RECORD_USAGE = "weir.record_usage"
RECOMMEND_DEFRAGMENTATION = "weir.recommend_defragmentation"
SWEEP = "weir.sweep"
