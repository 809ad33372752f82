"""Addresses of the pages, by the names that templates use."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from dashboard.pages.views import (
    account,
    audit,
    bills,
    dataflows,
    estate,
    explorer,
    guides,
    overlap,
    proposals,
    task_types,
    teams,
)

urlpatterns = [
    path("", estate.estate, name="estate"),
    path("estate/history.json", estate.estate_history, name="estate_history"),
    path("estate/graph", explorer.estate_graph, name="estate_graph"),
    path("estate/graph.json", explorer.estate_graph_json, name="estate_graph_json"),
    path("estate/tasks/<slug:task_id>", explorer.running_task, name="running_task"),
    path("estate/tasks/<slug:task_id>/graph.json", explorer.running_task_graph, name="running_task_graph"),
    path("estate/overlap", overlap.overlap, name="overlap"),
    path("estate/overlap/matrix.json", overlap.overlap_matrix, name="overlap_matrix"),
    path("estate/overlap/<uuid:one>/<uuid:other>", overlap.overlap_pair, name="overlap_pair"),
    path("estate/overlap/<uuid:one>/<uuid:other>/graph.json", overlap.overlap_pair_graph, name="overlap_pair_graph"),
    path("dataflows/", dataflows.dataflows, name="dataflows"),
    path("dataflows/new", dataflows.dataflow_new, name="dataflow_new"),
    path("dataflows/samples/<slug:slug>", dataflows.sample, name="sample"),
    path("dataflows/<uuid:dataflow_id>/", dataflows.dataflow, name="dataflow"),
    path("dataflows/<uuid:dataflow_id>/graph.json", dataflows.dataflow_graph_json, name="dataflow_graph"),
    path("dataflows/<uuid:dataflow_id>/plots.json", dataflows.dataflow_plots, name="dataflow_plots"),
    path("dataflows/<uuid:dataflow_id>/outputs/<path:task>", dataflows.output_events, name="output_events"),
    path("dataflows/<uuid:dataflow_id>/remove", dataflows.dataflow_remove, name="dataflow_remove"),
    path("proposals/", proposals.proposals, name="proposals"),
    path("proposals/<uuid:proposal_id>/", proposals.proposal, name="proposal"),
    path("proposals/<uuid:proposal_id>/graph.json", proposals.proposal_graph, name="proposal_graph"),
    path("proposals/<uuid:proposal_id>/<slug:way>", proposals.proposal_act, name="proposal_act"),
    path("bills/", bills.bills, name="bills"),
    path("bills/plots.json", bills.bills_plots, name="bills_plots"),
    path("bills/export.csv", bills.bills_export, name="bills_export"),
    path("bills/<uuid:dataflow_id>/", bills.bill, name="bill"),
    path("bills/<uuid:dataflow_id>/plots.json", bills.bill_plots, name="bill_plots"),
    path("bills/<uuid:dataflow_id>/export.csv", bills.bill_export, name="bill_export"),
    path("task-types/", task_types.task_types, name="task_types"),
    path("audit/", audit.audit, name="audit"),
    path("help/", guides.help_index, name="help"),
    path("help/<slug:slug>", guides.help_guide, name="help_guide"),
    path("teams/", teams.teams, name="teams"),
    path("teams/new", teams.team_create, name="team_create"),
    path("teams/<slug:slug>/members", teams.member_set, name="member_set"),
    path("teams/<slug:slug>/members/remove", teams.member_remove, name="member_remove"),
    path("tokens/new", teams.token_create, name="token_create"),
    path("tokens/<int:token_id>/revoke", teams.token_revoke, name="token_revoke"),
    path("login/", account.LogIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("password/", account.ChangePassword.as_view(), name="password_change"),
]
