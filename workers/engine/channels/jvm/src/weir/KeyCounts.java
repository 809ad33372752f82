package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * How the events that a query deals out by a {@link Ring} spread over keys: how many went to each stretch of the ring, and
 * the most frequent keys by the space-saving algorithm (Metwally and others, 2005). Older events count less and less.
 * {@code scheduler/model/key_loads.py} says what that is good for.
 *
 * <p>One task at a time counts for a reader. Counts inform, they do not account: a repeated batch counts again.
 */
final class KeyCounts {
  static final int STRETCHES = 256;
  private static final int NAMES = 16; // a key with more than a sixteenth of the events is among them
  private static final int LEAST_PART = 100; // of the events: what is told of is one in so many at least
  private static final int TEXT_LENGTH = 64; // of a key, in characters
  private static final double MEMORY_MS = 300_000; // after which an event counts 1/e
  private static final long REPORT_MS = 2_000;
  private static final int KEPT_S = 3_600; // a query that goes on counts anew
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, KeyCounts> COUNTS = new ConcurrentHashMap<>(); // by broker, fragment and reader

  private final double[] byStretch = new double[STRETCHES];
  private final long[] hashes = new long[NAMES]; // of the named keys
  private final double[] counts = new double[NAMES];
  private final double[] mistaken = new double[NAMES]; // as many of a count may be of others
  private final UTF8String[] texts = new UTF8String[NAMES]; // null before a key's second event
  private long fadedMs = System.currentTimeMillis();
  private long reportedMs;

  /** What the query of a fragment counts for one divided reader of its streams. */
  static KeyCounts of(Broker broker, String fragment, String reader) {
    return COUNTS.computeIfAbsent(broker.url + ' ' + fragment + ' ' + reader, any -> new KeyCounts());
  }

  static void forget(Broker broker, String fragment) {
    COUNTS.keySet().removeIf(name -> name.startsWith(broker.url + ' ' + fragment + ' '));
  }

  /** Counts an event. */
  void add(UTF8String key, long hash) {
    byStretch[(int) (hash >>> 56)]++;
    int least = 0;
    for (int i = 0; i < NAMES; i++) {
      if (hashes[i] == hash && counts[i] > 0) {
        counts[i]++;
        if (texts[i] == null) texts[i] = key.substring(0, TEXT_LENGTH);
        return;
      }
      if (counts[i] < counts[least]) least = i;
    }
    hashes[least] = hash;
    mistaken[least] = counts[least];
    counts[least]++;
    texts[least] = null;
  }

  /** Sends what was counted along with the fragment's meters, where that was not done a moment ago. */
  void report(Meters meters, String fragment, String reader) {
    long nowMs = System.currentTimeMillis();
    if (nowMs - reportedMs < REPORT_MS) return;
    reportedMs = nowMs;
    fade(nowMs);
    String key = Keys.keyMeters(fragment);
    meters.send(List.of(new Object[] {"HSET", key, reader, document(nowMs)}, new Object[] {"EXPIRE", key, KEPT_S}));
  }

  private void fade(long nowMs) {
    double part = Math.exp(-Math.max(0, nowMs - fadedMs) / MEMORY_MS);
    fadedMs = nowMs;
    for (int i = 0; i < STRETCHES; i++) byStretch[i] *= part;
    for (int i = 0; i < NAMES; i++) {
      counts[i] *= part;
      mistaken[i] *= part;
    }
  }

  /** All of it as JSON, a few kB at most. */
  String document(long nowMs) {
    double all = 0;
    List<Long> stretches = new ArrayList<>(STRETCHES);
    for (double count : byStretch) {
      all += count;
      stretches.add(Math.round(count));
    }
    List<Object> frequent = new ArrayList<>();
    for (int i = 0; i < NAMES; i++) {
      double sure = counts[i] - mistaken[i];
      if (texts[i] == null || sure * LEAST_PART < all) continue;
      frequent.add(List.of(texts[i].toString(), Ring.keyGroup(hashes[i]), Math.round(sure)));
    }
    try {
      return JSON.writeValueAsString(Map.of("at_ms", nowMs, "by_stretch", stretches, "frequent", frequent));
    } catch (JsonProcessingException broken) {
      throw new IllegalStateException("counts of keys have no JSON", broken);
    }
  }
}
