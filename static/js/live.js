// One topic, live: a snapshot over HTTP with a sequence number, then merge patches over the WebSocket. A gap, or a
// connection that was lost, means another snapshot. Events: "change" (the new state), "connection" (how it stands).

import { fetchJson } from "./scripts.js";

const BACKOFF_MS = [500, 1000, 2000, 4000, 8000, 15000];
const AWAY_MS = 4000;

/** The state after a JSON merge patch (RFC 7386); what the patch does not name keeps its identity. */
export function applyPatch(state, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const result = state !== null && typeof state === "object" && !Array.isArray(state) ? { ...state } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = applyPatch(result[name], value);
  }
  return result;
}

export class LiveTopic extends EventTarget {
  constructor(topic, { makeSocket = (url) => new WebSocket(url) } = {}) {
    super();
    this.topic = topic;
    this.makeSocket = makeSocket;
    this.seq = null;
    this.state = null;
    this.failures = 0;
  }

  async start() {
    this.tell("connecting");
    if (await this.snapshot()) this.connect();
    else this.later(() => this.start());
  }

  /** True where the state is known now; a state without a number is asked for again while the broker is away. */
  async snapshot() {
    try {
      const found = await fetchJson(`/live/snapshot?topic=${encodeURIComponent(this.topic)}`);
      this.seq = found.seq;
      this.state = found.state;
      this.changed(found.state);
      if (found.seq === 0) this.retryAway();
      return true;
    } catch (error) {
      if ([401, 403, 404].includes(error.status)) this.tell("gone");
      else this.tell("offline");
      return false;
    }
  }

  retryAway() {
    this.tell("away");
    clearTimeout(this.awayTimer);
    this.awayTimer = setTimeout(() => this.refetch(), AWAY_MS);
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = this.makeSocket(`${scheme}://${location.host}/ws/live`);
    this.socket.addEventListener("open", () => this.subscribe());
    this.socket.addEventListener("message", (event) => this.receive(JSON.parse(event.data)));
    this.socket.addEventListener("close", () => this.closed());
  }

  subscribe() {
    if (this.socket?.readyState !== WebSocket.OPEN || !this.seq) return;
    this.failures = 0;
    this.socket.send(JSON.stringify({ type: "subscribe", topic: this.topic, seq: this.seq }));
    this.tell("live");
  }

  receive(message) {
    if (message.topic !== undefined && message.topic !== this.topic) return;
    if (message.type === "delta") this.take(message);
    else if (message.type === "refetch") this.refetch();
    else if (message.type === "away") this.retryAway();
    else if (message.type === "gone") this.tell("gone");
    else if (message.type === "error") console.warn("live:", message.message);
  }

  take(message) {
    if (message.seq <= this.seq) return; // already in the snapshot
    if (message.from !== this.seq) {
      this.refetch();
      return;
    }
    this.seq = message.seq;
    this.state = applyPatch(this.state, message.patch);
    this.changed(message.patch);
  }

  /** One snapshot at a time: messages that arrive meanwhile are older than it, or show the next gap. */
  async refetch() {
    if (this.refetching) return;
    this.refetching = true;
    const known = await this.snapshot();
    this.refetching = false;
    if (!known) this.later(() => this.refetch());
    else if (this.socket?.readyState === WebSocket.OPEN) this.subscribe();
  }

  closed() {
    this.socket = null;
    this.tell("offline");
    this.later(() => this.start());
  }

  later(action) {
    if (this.status === "gone") return;
    const wait = BACKOFF_MS[Math.min(this.failures, BACKOFF_MS.length - 1)];
    this.failures += 1;
    setTimeout(action, wait * (0.75 + Math.random() / 2));
  }

  changed(patch) {
    this.dispatchEvent(new CustomEvent("change", { detail: { state: this.state, patch } }));
  }

  tell(status) {
    this.status = status;
    this.dispatchEvent(new CustomEvent("connection", { detail: status }));
  }
}
