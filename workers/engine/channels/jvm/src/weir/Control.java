package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A fragment's control hash as one batch sees it: read once a batch, so that every valve of the fragment changes at the
 * same batch boundary, and the same way when the batch is repeated. Whoever sees a change first sets its boundary, the
 * next batch, unless it is set already.
 */
final class Control {
  private static final Pattern ROUTE = Pattern.compile("(\\d+):(?:route:([^:]+)|(alternate|keys)):(\\d+)");
  // In the place of a reader: who works at an element is a route, too, and who works there for which key.
  private static final String ALTERNATE = "", KEYS = ":";
  private static final long SWITCHES_KEPT_S = 90L * 24 * 3600; // after the last one
  private static final Map<String, String> NOTED = new ConcurrentHashMap<>(); // change whose first event came, by run and place
  private static final String WAVE = "wave:"; // and the first batch of it
  private static final String COPIED = "copied", WAS = "was:"; // before what was forgotten, while there are copies
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Control> NEWEST = new ConcurrentHashMap<>(); // by broker and fragment

  /** One change of a route: its field, how it divides (text), and its first batch, null before it is set. */
  private static final class Change {
    final String field;
    final String partitioning;
    final Long from;

    Change(String field, String partitioning, String from) {
      this.field = field;
      this.partitioning = partitioning;
      this.from = from == null ? null : Long.valueOf(from);
    }

    boolean hasBegun(long batch) {
      return from != null && from <= batch;
    }

    boolean ends() {
      return partitioning.equals("{}");
    }
  }

  private final String run;
  private final long batch;
  private final Map<String, String> state;
  private final int tapped; // events of a batch that somebody wants to see
  private final Map<String, Optional<String>> inWave = new ConcurrentHashMap<>(); // alternates, by running task

  private Control(String run, long batch, Map<String, String> state, int tapped) {
    this.run = run;
    this.batch = batch;
    this.state = state;
    this.tapped = tapped;
  }

  /** The control of a fragment in one batch of one start of its query. */
  static Control of(Broker broker, String fragment, String run, long batch) {
    return at(broker, fragment, run, batch, false);
  }

  /**
   * The same where the batch is planned. A batch behind one of the same run has not been planned before: another alternate
   * is in force from it on, and not from the next one.
   */
  static Control planned(Broker broker, String fragment, String run, long batch) {
    return at(broker, fragment, run, batch, true);
  }

  private static Control at(Broker broker, String fragment, String run, long batch, boolean plans) {
    return NEWEST.compute(broker.url + ' ' + fragment, (key, known) -> {
      boolean isSameRun = known != null && known.run.equals(run);
      if (isSameRun && known.batch == batch) return known;
      Long switchesFrom = !plans ? null : (Long) (isSameRun && known.batch < batch ? batch : batch + 1);
      return read(broker, fragment, run, batch, switchesFrom);
    });
  }

  static void forget(Broker broker, String fragment) {
    NEWEST.remove(broker.url + ' ' + fragment);
    KeyCounts.forget(broker, fragment);
  }

  private static Control read(Broker broker, String fragment, String run, long batch, Long switchesFrom) {
    List<Object> replies = broker.pipeline(List.of(
        new Object[] {"HGETALL", Keys.valve(fragment)}, new Object[] {"GET", Keys.tap(fragment)}));
    Map<String, String> state = state((List<?>) replies.get(0));
    List<Object[]> changes = boundaries(state, fragment, batch, switchesFrom);
    boolean changed = !changes.isEmpty();
    for (String field : overtaken(state, batch)) {
      if (state.containsKey(COPIED)) { // who goes on from a copy of the query's state repeats older batches
        changes.add(new Object[] {"HSET", Keys.valve(fragment), WAS + field, state.get(field)});
        String from = state.get(field + ":from");
        if (from != null) changes.add(new Object[] {"HSET", Keys.valve(fragment), WAS + field + ":from", from});
      }
      changes.add(new Object[] {"HDEL", Keys.valve(fragment), field, field + ":from"});
    }
    if (!changes.isEmpty()) broker.writes(changes);
    return new Control(run, batch, changed ? fetch(broker, fragment) : state, Tap.wanted(replies.get(1)));
  }

  private static Map<String, String> fetch(Broker broker, String fragment) {
    return state((List<?>) broker.call(redis -> redis.call("HGETALL", Keys.valve(fragment))));
  }

  private static Map<String, String> state(List<?> reply) {
    Map<String, String> state = new ConcurrentHashMap<>(); // a wave is noted while valves of the same batch read
    for (int i = 0; i < reply.size(); i += 2) state.put(Redis.text(reply.get(i)), Redis.text(reply.get(i + 1)));
    return state;
  }

  private static List<Object[]> boundaries(Map<String, String> state, String fragment, long batch, Long switchesFrom) {
    List<Object[]> commands = new ArrayList<>();
    state.forEach((field, value) -> {
      String from = null;
      long first = batch + 1;
      if (field.endsWith(":outlet") && value.equals("open")) from = field.replace(":outlet", ":from");
      else if (field.equals("tail") || ROUTE.matcher(field).matches()) from = field + ":from";
      if (field.contains(":alternate:") && switchesFrom != null) first = switchesFrom;
      if (from != null && !state.containsKey(from)) {
        commands.add(new Object[] {"HSETNX", Keys.valve(fragment), from, first});
      }
    });
    return commands;
  }

  /** Changes that a later one has followed: a batch that begins is the oldest that can be repeated. */
  private static List<String> overtaken(Map<String, String> state, long batch) {
    List<String> fields = new ArrayList<>();
    for (List<Change> changes : changes(state).values()) {
      Change inForce = inForce(changes, batch);
      for (Change change : changes) {
        if (inForce == null || change == inForce) break;
        fields.add(change.field);
      }
      boolean isNewest = inForce == changes.get(changes.size() - 1);
      if (isNewest && inForce.ends()) fields.add(inForce.field); // the route ends, and nothing follows
    }
    Long newest = newestWave(state, batch);
    for (String field : state.keySet()) {
      if (newest != null && field.startsWith(WAVE) && firstBatch(field) < newest) fields.add(field);
    }
    return fields;
  }

  private static long firstBatch(String field) {
    return Long.parseLong(field.substring(WAVE.length()));
  }

  /** From which batch on the wave of a batch is noted; null where none is. */
  private static Long newestWave(Map<String, String> state, long batch) {
    Long newest = null;
    for (String field : state.keySet()) {
      if (!field.startsWith(WAVE)) continue;
      long first = firstBatch(field);
      if (first <= batch && (newest == null || first > newest)) newest = first;
    }
    return newest;
  }

  private static Change inForce(List<Change> changes, long batch) {
    Change newest = null;
    for (Change change : changes) if (change.hasBegun(batch)) newest = change;
    return newest;
  }

  /** The changes of each route, oldest first, by position and reader; those of an element without a reader. */
  private static Map<String, List<Change>> changes(Map<String, String> state) {
    Map<String, TreeMap<Long, Change>> numbered = new TreeMap<>();
    state.forEach((field, value) -> {
      Matcher match = ROUTE.matcher(field);
      if (!match.matches()) return;
      String reader = match.group(2) != null ? match.group(2) : match.group(3).equals("keys") ? KEYS : ALTERNATE;
      numbered.computeIfAbsent(match.group(1) + ':' + reader, any -> new TreeMap<>())
          .put(Long.valueOf(match.group(4)), new Change(field, value, state.get(field + ":from")));
    });
    Map<String, List<Change>> routes = new TreeMap<>();
    numbered.forEach((route, changes) -> routes.put(route, new ArrayList<>(changes.values())));
    return routes;
  }

  /** A valve of a query that stood by, with the token and the numbers that it was told; as stated for any other. */
  Valve.Spec opened(Valve.Spec stated) {
    if (stated.gate.isEmpty()) return stated;
    JsonNode beginning = Gate.parse(state.get(Keys.gate(stated.gate)));
    if (beginning == null) return stated; // the empty batch, for which no token is held
    return stated.opened(
        beginning.get("fences").get(stated.position).asLong(), beginning.get("batch_bases").get(stated.position).asLong());
  }

  /** How many events of each batch somebody who looks at the fragment's streams wants to see; 0 where nobody does. */
  int tapped() {
    return tapped;
  }

  /** Whether a task's stream is published whole in this batch. */
  boolean publishes(int position) {
    return "open".equals(state.get(position + ":outlet")) && hasBegun(position + ":from");
  }

  /** How a task's stream is divided in this batch, by divided reader. */
  Map<String, Partitioning> routes(int position) {
    Map<String, Partitioning> routes = new TreeMap<>();
    changes(state).forEach((route, changes) -> {
      Change inForce = inForce(changes, batch);
      boolean isOurs = route.startsWith(position + ":") && !route.equals(position + ":" + ALTERNATE)
          && !route.equals(position + ":" + KEYS);
      if (inForce != null && !inForce.ends() && isOurs) {
        routes.put(route.substring(route.indexOf(':') + 1), Partitioning.of(parsed(inForce.partitioning)));
      }
    });
    return routes;
  }

  /** Of which wave the batch is; null where that was never noted. */
  synchronized Long wave() {
    Long first = newestWave(state, batch);
    return first == null ? null : Long.valueOf(state.get(WAVE + first));
  }

  /** Notes of which wave batches are from one on, unless it is noted already. */
  synchronized void note(Broker broker, String fragment, long wave, long fromBatch) {
    if (state.containsKey(WAVE + fromBatch)) return;
    List<Object> replies = broker.writes(List.of(
        new Object[] {"HSETNX", Keys.valve(fragment), WAVE + fromBatch, wave},
        new Object[] {"HGET", Keys.valve(fragment), WAVE + fromBatch}));
    state.put(WAVE + fromBatch, Redis.text(replies.get(1)));
  }

  /** The alternate that an element has in the wave of this batch; null before its first. */
  String alternateInWave(Broker broker, String task) {
    return inWave.computeIfAbsent(task, any -> Optional.ofNullable(
        Waves.alternate(broker, task, wave() == null ? 0 : wave()))).orElse(null);
  }

  /** The alternate that works at an element in this batch; null where it was not said. */
  String alternate(int position) {
    Change inForce = switched(position);
    return inForce == null ? null : alternate(inForce);
  }

  /** The alternates that work for single keys at an element in this batch; for all others the element's own does. */
  Map<String, String> alternatesByKey(int position) {
    Change inForce = switched(position, KEYS);
    return inForce == null ? Map.of() : byKey(inForce);
  }

  private Change switched(int position) {
    return switched(position, ALTERNATE);
  }

  private Change switched(int position, String reader) {
    Change inForce = inForce(changes(state).getOrDefault(position + ":" + reader, List.of()), batch);
    return inForce == null || inForce.ends() ? null : inForce; // what was before the first one is none
  }

  private static String alternate(Change change) {
    return parsed(change.partitioning).fieldNames().next();
  }

  /**
   * Notes the first event that an alternate gets after a switch; a batch that is repeated has the same. Where a query starts
   * anew its first event is noted, too: nobody there knows what was noted before. An element that switches in waves has one
   * in each batch, {@code inWave}, and may have the one before again: where it reads several streams, some are ahead.
   */
  void noteFirstEvent(
      Broker broker, String task, String fragment, int position, String inWave, long batchOfEvent, long seq) {
    Change inForce = inWave == null ? switched(position) : null, ofKeys = switched(position, KEYS);
    String change = inWave != null ? inWave : inForce == null ? null : inForce.field;
    if (change != null) {
      note(broker, Keys.switches(task), change, "alternate", inWave == null ? alternate(inForce) : inWave, fragment, position,
          batchOfEvent, seq);
    }
    if (ofKeys != null) {
      note(broker, Keys.keySwitches(task), ofKeys.field, "keys", changedKeys(position), fragment, position, batchOfEvent, seq);
    }
  }

  private void note(
      Broker broker, String where, String change, String what, Object value, String fragment, int position, long batchOfEvent,
      long seq) {
    String place = run + ' ' + fragment + ' ' + position + ' ' + what;
    if (change.equals(NOTED.put(place, change))) return;
    try {
      String switched = JSON.writeValueAsString(Map.of(
          what, value, "query", fragment, "batch", batchOfEvent, "seq", seq, "at_ms", System.currentTimeMillis()));
      broker.writes(List.of(
          new Object[] {"HSETNX", where, fragment + ' ' + batchOfEvent, switched},
          new Object[] {"EXPIRE", where, SWITCHES_KEPT_S}));
    } catch (JsonProcessingException | RuntimeException failed) {
      NOTED.remove(place);
      throw new IllegalStateException("the first event of an alternate could not be noted", failed);
    }
  }

  /** What a change of alternates by key has changed, as far as the one before it is known; keys that it took out have "". */
  private Map<String, String> changedKeys(int position) {
    Map<String, String> was = Map.of(), is = Map.of();
    for (Change change : changes(state).get(position + ":" + KEYS)) {
      if (!change.hasBegun(batch)) break;
      was = is;
      is = byKey(change);
    }
    Map<String, String> changed = new TreeMap<>();
    for (Map.Entry<String, String> entry : is.entrySet()) {
      if (!entry.getValue().equals(was.get(entry.getKey()))) changed.put(entry.getKey(), entry.getValue());
    }
    for (String key : was.keySet()) if (!is.containsKey(key)) changed.put(key, "");
    return changed;
  }

  private static Map<String, String> byKey(Change change) {
    try {
      return JSON.readValue(change.partitioning, new TypeReference<Map<String, String>>() {});
    } catch (JsonProcessingException broken) {
      throw new IllegalStateException("not which alternates work for which keys: " + change.partitioning, broken);
    }
  }

  private static JsonNode parsed(String partitioning) {
    try {
      return JSON.readTree(partitioning);
    } catch (JsonProcessingException broken) {
      throw new IllegalStateException("not how a stream is divided: " + partitioning, broken);
    }
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
