package weir;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A fragment's control hash as one batch sees it: read once a batch, so that every valve of the fragment changes at the
 * same batch boundary, and the same way when the batch is repeated. Whoever sees a change first sets its boundary, the
 * next batch, unless it is set already.
 */
final class Control {
  private static final Map<String, Control> NEWEST = new ConcurrentHashMap<>(); // by broker and fragment

  private final String run;
  private final long batch;
  private final Map<String, String> state;

  private Control(String run, long batch, Map<String, String> state) {
    this.run = run;
    this.batch = batch;
    this.state = state;
  }

  /** The control of a fragment in one batch of one start of its query. */
  static Control of(Broker broker, String fragment, String run, long batch) {
    return NEWEST.compute(broker.url + ' ' + fragment, (key, known) ->
        known != null && known.batch == batch && known.run.equals(run) ? known : read(broker, fragment, run, batch));
  }

  static void forget(Broker broker, String fragment) {
    NEWEST.remove(broker.url + ' ' + fragment);
  }

  private static Control read(Broker broker, String fragment, String run, long batch) {
    Map<String, String> state = fetch(broker, fragment);
    List<Object[]> boundaries = new ArrayList<>();
    for (Map.Entry<String, String> entry : state.entrySet()) {
      boolean opens = entry.getKey().endsWith(":outlet") && entry.getValue().equals("open");
      String from = opens ? entry.getKey().replace(":outlet", ":from") : entry.getKey().equals("tail") ? "tail:from" : null;
      if (from != null && !state.containsKey(from)) {
        boundaries.add(new Object[] {"HSETNX", Keys.valve(fragment), from, batch + 1});
      }
    }
    if (!boundaries.isEmpty()) {
      broker.pipeline(boundaries);
      state = fetch(broker, fragment);
    }
    return new Control(run, batch, state);
  }

  private static Map<String, String> fetch(Broker broker, String fragment) {
    List<?> reply = (List<?>) broker.call(redis -> redis.call("HGETALL", Keys.valve(fragment)));
    Map<String, String> state = new HashMap<>();
    for (int i = 0; i < reply.size(); i += 2) state.put(Redis.text(reply.get(i)), Redis.text(reply.get(i + 1)));
    return state;
  }

  /** Whether a task's stream is published in this batch. */
  boolean publishes(int position) {
    return "open".equals(state.get(position + ":outlet")) && hasBegun(position + ":from");
  }

  /** Whether a task's events go on to the next task in this batch. */
  boolean passes(int position) {
    // Until a new tail begins, the one before it stays closed.
    String tail = state.get(hasBegun("tail:from") ? "tail" : "tail:was");
    return tail == null || position < Integer.parseInt(tail);
  }

  private boolean hasBegun(String from) {
    String first = state.get(from);
    return first != null && batch >= Long.parseLong(first);
  }
}
