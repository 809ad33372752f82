// The entry of every page: what all pages have, then what this page asks for by its markup.

import { startAlertCount } from "./alert_count.js";
import { startDialogs } from "./dialogs.js";
import { startFind } from "./find.js";
import { startMenus } from "./menus.js";
import { comeBack, startScrollers } from "./scrollers.js";
import { startShortcuts } from "./shortcuts.js";
import { startTabs } from "./tabs.js";
import { startTheme } from "./theme.js";
import { startToasts } from "./toasts.js";

startTheme();
startToasts();
startDialogs();
startMenus();
startShortcuts();
startFind();
startScrollers();
comeBack();
startTabs();
startAlertCount();

// The graph first: pages are built around it.
if (document.querySelector("[data-graph]")) {
  const { startGraphs } = await import("./graph_page.js");
  const merged = document.querySelector("[data-merged]") && (await import("./merged.js")).MergedPanel;
  const tasks = document.querySelector("[data-tasks]") && (await import("./task_panel.js")).DataflowPanel;
  startGraphs({ merged, tasks });
}
if (document.querySelector("[data-charts]")) {
  const { startCharts } = await import("./charts.js");
  startCharts();
}
if (document.body.dataset.live) {
  const { startLivePage } = await import("./live_page.js");
  startLivePage();
}
const polled = document.querySelector("[data-poll-ms]");
if (polled) {
  const { startPolling } = await import("./live_page.js");
  startPolling(polled);
}
if (document.querySelector("[data-plots]")) {
  const { startPlots } = await import("./plots.js");
  startPlots();
}
if (document.body.hasAttribute("data-wall")) {
  const { startWall } = await import("./wall.js");
  startWall();
}
if (document.getElementById("output-list")) {
  const { startOutputs } = await import("./outputs.js");
  startOutputs();
  // Outputs appear once the dataflow runs.
  document.addEventListener("htmx:after:swap", startOutputs);
}
if (document.querySelector("[data-heatmap]")) {
  const { startHeatMap } = await import("./heatmap.js");
  startHeatMap();
}
const board = document.querySelector("[data-deployment]");
if (board) {
  const { startDeployment } = await import("./deployment.js");
  startDeployment(board);
}
if (document.querySelector("[data-slots]")) {
  const { startSlots } = await import("./slots.js");
  startSlots();
}
if (document.querySelector("[data-what-if]")) {
  const { startWhatIf } = await import("./what_if.js");
  startWhatIf();
}
if (document.querySelector("#goals")) {
  const { startGoals } = await import("./goals.js");
  startGoals();
}
if (document.querySelector("[data-latency]")) {
  const { startLatency } = await import("./latency.js");
  startLatency();
}
document.documentElement.dataset.ready = "";
