// Numbers as people read them; dashboard/pages/templatetags/weir.py formats the same way.

export const NONE = "–";

function short(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(0)}k`;
  if (value >= 1e3) return `${(value / 1e3).toFixed(1)}k`;
  if (value >= 10 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(1);
}

export function count(value) {
  return value == null ? NONE : Math.round(value).toLocaleString("en-GB").replaceAll(",", "\u202f");
}

export function rate(value) {
  return value == null ? NONE : `${short(value)}/s`;
}

/** A rate as a figure that stands alone: its unit stands beside it. */
export function big(value) {
  return value == null ? NONE : short(value);
}

export function latency(ms) {
  if (ms == null) return NONE;
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60000)} min`;
}

export function percent(fraction) {
  return fraction == null ? NONE : `${Math.round(fraction * 100)}%`;
}

/** Two digits where it is small, for much of memory is. */
export function share(fraction) {
  if (fraction == null) return NONE;
  const value = fraction * 100;
  if (value > 0 && value < 0.01) return "<0.01%";
  return `${value >= 9.95 || value === 0 ? value.toFixed(0) : Number(value.toPrecision(2))}%`;
}

export function memory(mb) {
  if (mb == null) return NONE;
  return mb >= 1024 ? `${(mb / 1024).toFixed(1)} GB` : `${Math.round(mb)} MB`;
}

export function ago(iso, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(iso)) / 1000);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

export function until(ms, now = Date.now()) {
  const seconds = Math.ceil((ms - now) / 1000);
  return seconds > 0 ? `in ${seconds} s` : "now";
}

export function text(value) {
  return value == null || value === "" ? NONE : String(value);
}
