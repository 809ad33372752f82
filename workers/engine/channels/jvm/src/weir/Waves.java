package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * Waves (docs/dynamic.md): numbers that grow with each switch of elements that switch in waves. The query of a source says
 * in which wave an event comes; every batch of every query is of one wave, and so is each block that it writes. Which
 * alternate an element has in a wave stands in the broker before an event of that wave is there.
 */
final class Waves {
  static final int KEPT = 500; // switches of an element: as the site's script keeps them
  private static final int MOST_BYTES = 1_000 * KEPT; // of the marks of a channel (write.lua)

  private static final String BATCH = "streaming.sql.batchId", RUN = "spark.jobGroup.id";
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Waves> OF_QUERIES = new ConcurrentHashMap<>(); // by broker and fragment

  /** A stream whose batches are of one wave each. */
  interface Carrier {
    /** Notes the wave of a batch, which follows from its offsets, before anything is done with its events. */
    void begins(String run, long batch, Offset start, Offset end);
  }

  private final Set<Object> asked = new HashSet<>(); // in this round
  private Long wave; // of the batch that is planned; null while it may be any
  private Long next; // of events that wait because the batch is of another wave
  private Long newest; // of the newest batch that has begun in this run

  private Waves() {}

  /** What the streams of one query share, for a batch is of one wave in all of them. */
  static Waves of(String query) {
    return OF_QUERIES.computeIfAbsent(query, any -> new Waves());
  }

  static void forget(String query) {
    OF_QUERIES.remove(query);
  }

  /** A stream is asked for a batch: Spark asks all of a query in turn, and then all of them again. */
  synchronized void asks(Object stream) {
    if (asked.add(stream)) return;
    asked.clear();
    asked.add(stream);
    wave = next; // who has waited is first
    next = null;
  }

  synchronized Long wave() {
    return wave;
  }

  synchronized void takes(long wave) {
    this.wave = wave;
  }

  synchronized void waits(long wave) {
    next = wave;
  }

  /** Whether the batch that is planned may be of a wave; then it is. */
  synchronized boolean allows(long wave) {
    if (this.wave == null) this.wave = wave;
    return this.wave == wave;
  }

  synchronized Long newest() {
    return newest;
  }

  synchronized void begins(long wave) {
    newest = wave;
  }

  /** On the thread that plans a batch, or works on it: lets a stream note its wave. */
  static void begin(Carrier stream, Offset start, Offset end) {
    TaskContext task = TaskContext.get();
    SparkContext context = task == null ? SparkContext.getOrCreate() : null;
    String batch = task == null ? context.getLocalProperty(BATCH) : task.getLocalProperty(BATCH);
    String run = task == null ? context.getLocalProperty(RUN) : task.getLocalProperty(RUN);
    if (batch != null) stream.begins(run == null ? "" : run, Long.parseLong(batch), start, end);
  }

  /** The marks of a channel, as the broker answers; what is longer than they may be (write.lua) is as if there were none. */
  static String marks(Object reply) {
    return reply == null || ((byte[]) reply).length > MOST_BYTES ? "" : Redis.text(reply);
  }

  /**
   * The wave of a block, by the marks of its channel: {@code <first part of an id>:<wave>,…}, one for each change, the
   * oldest first.
   */
  static long ofBlock(String marks, String id) {
    if (marks == null || marks.isEmpty()) return 0;
    long batch = Long.parseLong(id.substring(0, id.indexOf('-')));
    long found = 0;
    for (String mark : marks.split(",")) {
      int colon = mark.indexOf(':');
      if (Long.parseLong(mark.substring(0, colon)) > batch) break;
      found = Long.parseLong(mark.substring(colon + 1));
    }
    return found;
  }

  /** The newest wave that a source is to begin; 0 before the first. */
  static long newest(Broker broker, String source) {
    Object newest = broker.call(redis -> redis.call("GET", Keys.wave(source)));
    return newest == null ? 0 : Long.parseLong(Redis.text(newest));
  }

  /** The alternate of an element in a wave; null before the element's first. */
  static String alternate(Broker broker, String task, long wave) {
    Object text = broker.call(redis -> redis.call("GET", Keys.waves(task)));
    if (text == null) return null;
    try {
      JsonNode switches = JSON.readTree(Redis.text(text)); // [[wave, alternate], …], the oldest first
      String found = null;
      for (JsonNode change : switches) if (change.get(0).asLong() <= wave) found = change.get(1).asText();
      if (found == null && switches.size() >= KEPT) {
        throw new IllegalStateException(
            "WEIRGAP which alternate " + task + " had in wave " + wave + " is no longer known: it was switched " + KEPT
            + " times since. Events that wait for so long cannot be worked on; give up what waits, or resubmit the dataflow");
      }
      return found;
    } catch (JsonProcessingException broken) {
      throw new IllegalStateException("not the switches of an element: " + Redis.text(text), broken);
    }
  }
}
