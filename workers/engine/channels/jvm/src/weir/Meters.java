package weir;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What this JVM counted and has not yet told the broker. One daemon thread sends the differences twice a second, and
 * nothing when nothing changed. A difference lost on a broken connection may be counted twice: meters inform, they do
 * not account.
 */
final class Meters {
  private static final long FLUSH_MS = 500;
  private static final int BY_CHANNEL_KEPT_S = 600; // a reader that goes on counts anew, and channels come and go

  private final Broker broker;
  private final Map<String, Map<String, Long>> counts = new HashMap<>(); // fragment -> field -> difference
  private final Map<String, Map<String, Long>> byChannel = new HashMap<>(); // likewise, of the channels that it reads
  private final Map<String, Map<String, Long>> reached = new HashMap<>(); // fragment -> field -> highest value
  private final Map<String, String> throttled = new HashMap<>(); // fragment -> full channel, "" when none any more
  private List<Object[]> others = new ArrayList<>(); // commands that go along once
  private Thread flusher;

  Meters(Broker broker) {
    this.broker = broker;
  }

  /** The histogram bucket of a latency: quarter octaves of ms + 1. */
  static int bucket(long ms) {
    return (int) Math.floor(4 * Math.log(Math.max(0, ms) + 1) / Math.log(2) + 1e-9);
  }

  /** Adds to several fields of a fragment at once. */
  synchronized void add(String fragment, Map<String, Long> differences) {
    add(counts, fragment, differences);
  }

  /** Adds to several fields of the channels that a fragment reads. */
  synchronized void addByChannel(String fragment, Map<String, Long> differences) {
    add(byChannel, fragment, differences);
  }

  private void add(Map<String, Map<String, Long>> all, String fragment, Map<String, Long> differences) {
    Map<String, Long> fields = all.computeIfAbsent(fragment, any -> new HashMap<>());
    differences.forEach((field, difference) -> fields.merge(field, difference, Long::sum));
    start();
  }

  /** Notes how far something of a fragment has come; it does not go back. */
  synchronized void reach(String fragment, String field, long value) {
    reached.computeIfAbsent(fragment, any -> new HashMap<>()).merge(field, value, Math::max);
  }

  /** Notes which full channel keeps a fragment from planning, the empty string when none does. */
  synchronized void throttle(String fragment, String channel) {
    throttled.put(fragment, channel);
    start();
  }

  /** Sends commands along with the next counts; they are lost where the broker is away then. */
  synchronized void send(List<Object[]> commands) {
    others.addAll(commands);
    start();
  }

  private void start() {
    if (flusher != null) return;
    flusher = new Thread(this::run, "weir-meters");
    flusher.setDaemon(true);
    flusher.start();
  }

  private void run() {
    while (true) {
      try {
        Thread.sleep(FLUSH_MS);
      } catch (InterruptedException interrupted) {
        return;
      }
      flush();
    }
  }

  /** Sends what was counted; a query that stops does so at once, so that its counts are complete. */
  void flush() {
    List<Object[]> commands = new ArrayList<>();
    Map<String, Map<String, Long>> taken;
    Map<String, Map<String, Long>> takenByChannel;
    Map<String, String> takenThrottled;
    synchronized (this) {
      if (counts.isEmpty() && byChannel.isEmpty() && throttled.isEmpty() && others.isEmpty()) return;
      commands.addAll(others);
      others = new ArrayList<>();
      taken = new HashMap<>(counts);
      counts.clear();
      takenByChannel = new HashMap<>(byChannel);
      byChannel.clear();
      // With the counts of the same events: what counted nothing has come no further.
      for (String fragment : taken.keySet()) {
        reached.getOrDefault(fragment, Map.of()).forEach((field, value) ->
            commands.add(new Object[] {"HSET", Keys.meter(fragment), field, value}));
      }
      throttled.forEach((fragment, channel) -> commands.add(channel.isEmpty()
          ? new Object[] {"HDEL", Keys.meter(fragment), "throttled_by"}
          : new Object[] {"HSET", Keys.meter(fragment), "throttled_by", channel}));
      takenThrottled = new HashMap<>(throttled);
      throttled.clear();
    }
    taken.forEach((fragment, fields) -> fields.forEach((field, difference) ->
        commands.add(new Object[] {"HINCRBY", Keys.meter(fragment), field, difference})));
    takenByChannel.forEach((fragment, fields) -> {
      String key = Keys.channelMeters(fragment);
      fields.forEach((field, difference) -> commands.add(new Object[] {"HINCRBY", key, field, difference}));
      commands.add(new Object[] {"EXPIRE", key, BY_CHANNEL_KEPT_S});
    });
    try {
      broker.once(redis -> redis.pipeline(commands));
    } catch (IOException | RuntimeException away) {
      taken.forEach(this::add);
      takenByChannel.forEach(this::addByChannel);
      synchronized (this) {
        takenThrottled.forEach(throttled::putIfAbsent);
      }
    }
  }
}
