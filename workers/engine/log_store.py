"""Lines of logs, asked of a node through the broker (``weir:logs:<node>``, ``weir:log:<order>``)."""

from __future__ import annotations

from scheduler.contracts.logs import LOG_ANSWERS, LOG_ORDERS

from .node_orders import NodeOrders

LOGS = NodeOrders("logs", "log", 50, LOG_ORDERS, LOG_ANSWERS)
