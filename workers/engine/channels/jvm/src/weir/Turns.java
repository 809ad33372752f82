package weir;

import java.util.HashMap;
import java.util.Map;

/**
 * Whose turn it is, of the queries of one driver: a batch that is due waits while another one runs, for a part of its
 * interval at most. Batches of equal intervals that once fell together would do so ever after, and share the CPU each
 * time; so they part within some intervals, and each takes less time.
 */
final class Turns {
  static final Turns OF_THIS_DRIVER = new Turns();
  private static final long LOOK_AGAIN_MS = 20;
  private static final long LONGEST_MS = 5_000; // for a batch that takes longer nobody waits

  private final Map<Pace, Long> running = new HashMap<>(); // when each began
  private long givenAt;

  /** How long a batch that may wait until {@code latest} has to wait before it asks again; 0 where it may begin. */
  synchronized long leftMs(long now, long latest) {
    long atMost = latest - now;
    if (atMost <= 0) return 0;
    running.values().removeIf(begunAt -> now - begunAt > LONGEST_MS);
    // Who got the turn may still be asking for its events.
    if (!running.isEmpty() || (now >= givenAt && now - givenAt < LOOK_AGAIN_MS)) return Math.min(atMost, LOOK_AGAIN_MS);
    givenAt = now;
    return 0;
  }

  synchronized void begins(Pace pace, long now) {
    running.put(pace, now);
  }

  synchronized void ends(Pace pace) {
    running.remove(pace);
  }
}
