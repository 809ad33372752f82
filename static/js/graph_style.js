// How tasks and streams are drawn, from the tokens of the theme in force.

import { token } from "./theme.js";

function palette() {
  const names = ["surface", "sunken", "line", "line-strong", "ink", "ink-2", "ink-3", "accent", "accent-ink", "accent-line", "accent-soft", "bad", "bad-soft", "warn", "warn-soft"];
  return Object.fromEntries(names.map((name) => [name, token(`--${name}`)]));
}

/** A stripe at one side of the box tells sources and sinks from what is between them. */
function stripe(colour, fill, side) {
  const near = side === "left" ? [colour, colour, fill, fill] : [fill, fill, colour, colour];
  const stops = side === "left" ? "0% 3.5% 3.5% 100%" : "0% 96.5% 96.5% 100%";
  return {
    "background-fill": "linear-gradient",
    "background-gradient-direction": "to-right",
    "background-gradient-stop-colors": near.join(" "),
    "background-gradient-stop-positions": stops,
  };
}

/** Of a large graph the whole is seen from afar: boxes are plain, what is shared is tinted, and what is lit is filled. */
export function graphStyle({ large = false } = {}) {
  const c = palette();
  const fonts = getComputedStyle(document.body).fontFamily;
  return [
    { selector: "node", style: {
      shape: "round-rectangle", "corner-radius": 7, width: "data(width)", height: "data(height)",
      "background-color": c.surface, "border-width": 1.4, "border-color": c["line-strong"],
      label: "data(text)", "text-wrap": "wrap", "text-max-width": "data(textWidth)", "text-valign": "center",
      "text-halign": "center", "font-family": fonts, "font-size": 12, "font-weight": 500, "line-height": 1.35,
      color: c.ink, "min-zoomed-font-size": 6, "overlay-opacity": 0,
    } },
    { selector: "node.dynamic", style: { "border-style": "double", "border-width": 4, "border-color": c.accent } },
    { selector: "node.open", style: { "text-margin-y": "data(shift)", "background-color": c.sunken } },
    { selector: "node.way", style: { "border-width": 1, "border-color": c["line-strong"], "background-color": c.surface, color: c["ink-2"], "font-size": 11, "corner-radius": 5 } },
    { selector: "node.way.on", style: { "border-color": c.accent, "border-width": 1.6, "background-color": c["accent-soft"], color: c.ink } },
    { selector: "node.source", style: stripe(c["ink-2"], c.surface, "left") },
    { selector: "node.sink", style: stripe(c["ink-2"], c.surface, "right") },
    { selector: "node.shared", style: { "background-fill": "solid", "background-color": c.sunken, "border-color": c["ink-3"], "border-style": "double", "border-width": 4 } },
    { selector: "node.shared.source", style: stripe(c["ink-2"], c.sunken, "left") },
    { selector: "node.shared.sink", style: stripe(c["ink-2"], c.sunken, "right") },
    ...(large ? [
      { selector: "node", style: { "background-fill": "solid", "background-color": c["line-strong"], "background-opacity": 0.3, "corner-radius": 4 } },
      { selector: "node.shared", style: { "background-color": c["accent-line"], "background-opacity": 1, "border-style": "solid", "border-color": c.accent, "border-width": 2 } },
    ] : []),
    { selector: "node.starts", style: { "background-fill": "solid", "background-color": c["accent-soft"], "border-color": c.accent, "border-width": 2 } },
    { selector: "node.stops", style: { "background-fill": "solid", "background-color": c["bad-soft"], "border-color": c.bad, "border-style": "dashed", "border-width": 2 } },
    { selector: "node.busy", style: { "border-color": c.warn, "border-width": 2.5 } },
    { selector: "node.throttled", style: { "background-fill": "solid", "background-color": c["warn-soft"], "border-color": c.warn, "border-width": 2.5, "border-style": "dashed" } },
    { selector: "node.failed", style: { "background-fill": "solid", "background-color": c["bad-soft"], "border-color": c.bad, "border-width": 2.5 } },
    { selector: "node.common", style: { "background-fill": "solid", "background-color": c["accent-soft"], "border-color": c.accent, "border-width": 2.5 } },
    { selector: "node.two", style: { "background-fill": "solid", "background-color": c["warn-soft"], "border-color": c.warn, "border-width": 1.6 } },
    { selector: "node.behind", style: { "background-fill": "solid", "background-color": c["warn-soft"], "border-color": c.warn } },
    { selector: "node.branch", style: { "background-opacity": 0, "border-style": "dashed", color: c["ink-2"] } },
    { selector: "node.lit", style: { "background-fill": "solid", "background-opacity": 1, "background-color": large ? c.accent : c["accent-soft"], color: large ? c["accent-ink"] : c.ink, "border-color": c.accent, "border-width": 3, "z-index": 2 } },
    { selector: "node.dim", style: { opacity: large ? 0.4 : 0.3 } },
    { selector: "node.joinable", style: { "border-color": c.accent, "border-style": "dashed", "border-width": 2 } },
    { selector: "node.aimed", style: { "background-fill": "solid", "background-color": c["accent-soft"], "border-color": c.accent, "border-style": "solid", "border-width": 3 } },
    { selector: "node.absent", style: { opacity: 0.28 } },
    { selector: "node:selected", style: { "underlay-color": c.accent, "underlay-opacity": 0.28, "underlay-padding": 6, "underlay-shape": "round-rectangle" } },
    { selector: "edge", style: {
      width: 1.4, "line-color": c["line-strong"], "target-arrow-color": c["line-strong"], "target-arrow-shape": "triangle",
      "arrow-scale": 0.85, "curve-style": "straight", label: "data(text)", "font-family": fonts, "font-size": 10,
      color: c["ink-2"], "text-background-color": c.sunken, "text-background-opacity": 1, "text-background-padding": 2,
      "text-wrap": "wrap", "line-height": 1.25, "min-zoomed-font-size": 7, "overlay-opacity": 0,
    } },
    { selector: "edge.bent", style: {
      "curve-style": "round-segments", "segment-radii": 9, "segment-weights": "data(weights)", "segment-distances": "data(distances)",
      "edge-distances": "endpoints", "source-endpoint": "data(from)", "target-endpoint": "data(to)",
    } },
    { selector: "edge.pinned", style: { "source-endpoint": "data(from)", "target-endpoint": "data(to)" } },
    { selector: "edge.flowing", style: { "line-color": c.accent, "target-arrow-color": c.accent, width: "data(weight)" } },
    { selector: "edge.starts", style: { "line-color": c.accent, "target-arrow-color": c.accent, width: 2 } },
    { selector: "edge.stops", style: { "line-color": c.bad, "target-arrow-color": c.bad, "line-style": "dashed" } },
    { selector: "edge.common, edge.lit", style: { "line-color": c.accent, "target-arrow-color": c.accent, width: 2.2, "z-index": 2 } },
    { selector: "edge.two", style: { "line-color": c.warn, "target-arrow-color": c.warn } },
    { selector: "edge.branch", style: { "line-style": "dashed" } },
    { selector: "edge.dim", style: { opacity: 0.2 } },
    { selector: "edge.absent", style: { opacity: 0.2 } },
  ];
}
