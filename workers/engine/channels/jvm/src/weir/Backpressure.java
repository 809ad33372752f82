package weir;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What keeps a source from planning its next batch: a pause of its query, or a full channel that the query writes, or a
 * full part of one, or, of a source that makes its events, a broker that is nearly full; and its pace. The broker is asked only when there is something to plan, in the same round trip as the
 * question for it.
 */
final class Backpressure {
  private static final long ASK_ANYWAY_MS = 1_000; // a lost message costs a second at most
  private static final long SHOWN_EVERY_MS = 1_000;
  private static final Set<String> RESTING = ConcurrentHashMap.newKeySet(); // by broker and fragment
  private static final Map<String, Backpressure> OPENED = new ConcurrentHashMap<>(); // in real-time mode, likewise

  private final Broker broker;
  private final String reader;
  private final List<String> channels;
  private final String crowded; // the key that is there while the broker is nearly full; empty for who reads channels
  final Pace pace;
  private long askedAt;
  private final String key;
  private String full = "";
  private boolean paused;
  private long newestBoundary;
  private boolean tapped;
  private volatile boolean hasMoved;
  private long begunAt; // when the open batch moved first
  private volatile long busyMs; // for how long it has been at work
  private volatile long movedAt; // when the open batch last took an event or looked for one; 0 while none is open

  /** A query that reads channels goes on where the broker is nearly full: it frees what it has read. */
  Backpressure(Broker broker, String reader, String channels, boolean readsChannels) {
    crowded = readsChannels ? "" : Keys.CROWDED;
    this.broker = broker;
    this.reader = reader;
    this.channels = split(channels);
    pace = Pace.of(broker, reader);
    key = broker.url + ' ' + reader;
    broker.meters.throttle(reader, ""); // whatever a driver that was killed has left
  }

  static List<String> split(String names) {
    if (names == null || names.isBlank()) return List.of();
    return Arrays.asList(names.split(","));
  }

  /** Topics on which the source hears that it may be able to plan again. */
  List<String> topics() {
    List<String> topics = new ArrayList<>();
    topics.add(Keys.valve(reader));
    for (String channel : channels) topics.add(Keys.room(channel));
    return topics;
  }

  /** The question, to be sent first in a pipeline; its reply is for {@link #applies}. */
  Object[] question() {
    List<String> arguments = new ArrayList<>(List.of(Keys.channel(""), crowded));
    arguments.addAll(channels);
    return Broker.Script.BACKPRESSURE.command(List.of(Keys.valve(reader), Keys.tap(reader)), arguments.toArray());
  }

  /** Whether the source must not plan; a full channel is made visible as {@code throttled_by}. */
  boolean applies(Object reply) {
    List<?> answer = (List<?>) reply;
    paused = (Long) answer.get(0) == 1;
    String channel = Redis.text(answer.get(1));
    pace.set((Long) answer.get(2));
    newestBoundary = (Long) answer.get(3);
    tapped = (Long) answer.get(4) == 1;
    if (!channel.equals(full)) broker.meters.throttle(reader, channel);
    full = channel;
    return paused || !full.isEmpty();
  }

  /**
   * Waits until the next batch is due, at most until {@code deadline}; whether it is. A pause ends the waiting, and the
   * interval may become another one. What the bell said meanwhile is heard afterwards.
   */
  boolean isDue(Arrivals.Bell bell, long deadline, boolean follows) {
    boolean rang = false;
    while (true) {
      long now = System.currentTimeMillis();
      long left = pace.leftMs(now, follows);
      if (left > 0 && (bell.heard() || now - askedAt >= ASK_ANYWAY_MS)) {
        rang = true;
        askedAt = now;
        hear();
        continue;
      }
      if (left == 0 || paused || pace.isToRest() || now >= deadline) {
        if (rang) bell.ring();
        return left == 0;
      }
      bell.await(Math.min(left, deadline - now));
    }
  }

  /**
   * Waits until an open batch may begin: while its query is paused, or a channel that it writes is full. Meanwhile a query
   * that is paused rests for certain.
   */
  void awaitTurn(Arrivals.Bell bell) {
    movedAt = 0;
    try {
      while (true) {
        bell.heard();
        if (!applies(broker.pipeline(List.<Object[]>of(question())).get(0))) {
          // Who has seen it rest has paused it before: then this hears of it.
          if (RESTING.remove(key)) continue;
          OPENED.put(key, this);
          if (hasMoved) moves(0); // the first batch of a driver takes its time to begin
          return;
        }
        if (paused) RESTING.add(key);
        bell.await(ASK_ANYWAY_MS);
      }
    } finally {
      RESTING.remove(key);
    }
  }

  /** The open batch takes an event, or looks whether there is one. It looks once a second while there is none. */
  void moves(long waitedMs) {
    long now = System.currentTimeMillis();
    hasMoved = true;
    if (movedAt == 0) begunAt = now;
    busyMs = now - begunAt - waitedMs;
    movedAt = now;
  }

  /**
   * A line for each query that has a batch open: for how long it has been at work so far, for how long it has not moved, in ms,
   * and the query.
   */
  static String openTimes(String url) {
    StringBuilder lines = new StringBuilder();
    long now = System.currentTimeMillis();
    OPENED.forEach((key, opened) -> {
      long movedAt = opened.movedAt;
      if (movedAt == 0 || !opened.broker.url.equals(url)) return;
      lines.append(opened.busyMs).append(' ').append(now - movedAt).append(' ').append(opened.reader).append('\n');
    });
    return lines.toString();
  }

  /** Whether a query in real-time mode is paused and no batch of it is open. */
  static boolean rests(String url, String reader) {
    return RESTING.contains(url + ' ' + reader);
  }

  /** Hears what is asked of an open batch, without looking for events. */
  void hear() {
    applies(broker.pipeline(List.<Object[]>of(question())).get(0));
  }

  /**
   * Whether an open batch should end: its query is paused, or something is to change at its next batch; or somebody looks
   * at its streams, who is shown the first events of each batch.
   */
  boolean endsBatch(long batch, long openedAt) {
    if (paused) return true;
    if (openedAt == 0) return false; // nothing changes without an event
    return newestBoundary > batch || (tapped && System.currentTimeMillis() - openedAt >= SHOWN_EVERY_MS);
  }

  /** Whether the query was paused when last asked: then its source does not even wait. */
  boolean isPaused() {
    return paused;
  }

  /** The full channel that the source waits for, or the empty string. */
  String throttledBy() {
    return full;
  }

  /** The query stops: nothing throttles it any more, its counts are complete, and its control is read anew. */
  void forget() {
    OPENED.remove(key, this);
    broker.meters.throttle(reader, "");
    broker.meters.flush();
    Control.forget(broker, reader);
    Pace.forget(broker, reader);
  }
}
