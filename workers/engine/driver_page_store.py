"""Spark's own pages of a driver, asked of a node (``weir:driver-pages:<node>``, ``weir:driver-page:<order>``)."""

from __future__ import annotations

from scheduler.contracts.driver_pages import DRIVER_PAGE_ORDERS, DRIVER_PAGES

from .node_orders import NodeOrders

PAGES_OF_DRIVERS = NodeOrders("driver-pages", "driver-page", 10, DRIVER_PAGE_ORDERS, DRIVER_PAGES)
