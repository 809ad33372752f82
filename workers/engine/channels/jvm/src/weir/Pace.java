package weir;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * How often a query's batches may begin: so many ms apart at least, as its fragment's control says, which may change
 * while it runs. The sources of a query share it: Spark asks them one after the other what the next batch has, and once
 * one has something for it the others may join.
 */
final class Pace {
  private static final long LONGEST_WAIT_MS = 1_000; // inside one trigger: so that a query that ends is seen to end
  private static final double GIVES_WAY = 0.25; // of its interval: so long a source waits while others have batches
  private static final double FOLLOWING_GIVES_WAY = 0.05; // a reader, which would fall behind its writer
  private static final double SLACK = 0.1; // of a reader's interval: by which a writer of the same interval may be early
  private static final Map<String, Pace> PACES = new ConcurrentHashMap<>(); // by broker and fragment

  private final Turns turns;
  private long intervalMs;
  private long begunAt; // the newest batch
  private boolean isPlanning; // it may still get events of other sources
  private boolean hasRested = true;

  Pace(Turns turns) {
    this.turns = turns;
  }

  static Pace of(Broker broker, String fragment) {
    return PACES.computeIfAbsent(broker.url + ' ' + fragment, key -> new Pace(Turns.OF_THIS_DRIVER));
  }

  static void forget(Broker broker, String fragment) {
    Pace pace = PACES.remove(broker.url + ' ' + fragment);
    if (pace != null) pace.turns.ends(pace);
  }

  synchronized void set(long intervalMs) {
    this.intervalMs = intervalMs;
  }

  /** The interval as it was last heard of: of an open batch, that between its groups of events. */
  synchronized long intervalMs() {
    return intervalMs;
  }

  /**
   * How long it is until a source may plan, or may ask again; a reader follows a writer, so its batches may be a little
   * nearer. Who is asked has no batch any more.
   */
  synchronized long leftMs(long now, boolean follows) {
    if (isPlanning) return 0;
    turns.ends(this);
    long dueAt = begunAt + (follows ? Math.round(intervalMs * (1 - SLACK)) : intervalMs);
    if (dueAt > now) return dueAt - now;
    return turns.leftMs(now, dueAt + Math.round(intervalMs * (follows ? FOLLOWING_GIVES_WAY : GIVES_WAY)));
  }

  /** A source has events for the next batch. */
  synchronized void begins(long now) {
    if (!isPlanning) {
      begunAt = now;
      turns.begins(this, now);
    }
    isPlanning = true;
    hasRested = false;
  }

  /** What waits is only for another batch: it need not wait for an interval, too. */
  synchronized void isDueAgain() {
    begunAt -= intervalMs;
  }

  /** All sources were asked. */
  synchronized void isPlanned() {
    isPlanning = false;
  }

  /**
   * Whether a source that must not plan yet says so at once, as it does first after each batch: then Spark knows that
   * the batch is over. While a source waits, its query's status is that of the trigger before.
   */
  synchronized boolean isToRest() {
    boolean isToRest = !hasRested;
    hasRested = true;
    return isToRest;
  }

  /** How long a source that waits for {@code waitMs} inside one trigger waits at this pace. */
  synchronized long waitMs(long waitMs) {
    return waitMs == 0 ? 0 : Math.max(waitMs, Math.min(intervalMs, LONGEST_WAIT_MS));
  }
}
