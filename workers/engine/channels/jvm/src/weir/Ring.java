package weir;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * By keys, by consistent hashing: an event goes to the part that has the nearest token counter-clockwise of its key, so that
 * each part has all events of its keys, in their order. {@code scheduler/model/ring.py} says what a ring is, and agrees.
 */
final class Ring implements Partitioning {
  static final int KEY_GROUPS = 65_536;
  private static final long SEED = 42; // of Spark's SQL function

  private final List<String> by = new ArrayList<>();
  private final List<String> parts;
  private final int[] partOf = new int[KEY_GROUPS]; // by key group
  private final JsonNode aheadMs; // null where parts are not told the marks of partitions

  Ring(JsonNode document) {
    document.get("by").forEach(column -> by.add(column.asText()));
    TreeMap<Integer, String> tokens = new TreeMap<>();
    document.get("tokens").properties().forEach(
        token -> tokens.put(Integer.valueOf(token.getKey()), token.getValue().asText()));
    parts = new ArrayList<>(new TreeSet<>(tokens.values()));
    int before = parts.indexOf(tokens.lastEntry().getValue()), from = 0; // before the first token, the ring's last
    for (int token : tokens.keySet()) {
      Arrays.fill(partOf, from, token, before);
      before = parts.indexOf(tokens.get(token));
      from = token;
    }
    Arrays.fill(partOf, from, KEY_GROUPS, before);
    aheadMs = document.get("ahead_ms");
  }

  @Override
  public List<String> parts() {
    return parts;
  }

  @Override
  public PartitionMarks marks(StructType schema) {
    return aheadMs == null ? null : new PartitionMarks(schema, aheadMs.asLong(), parts.size());
  }

  @Override
  public Partitioner partitioner(long batch, StructType schema, Supplier<KeyCounts> counts) {
    KeyText key = new KeyText(by, schema);
    KeyCounts counted = counts.get();
    return event -> {
      UTF8String text = key.of(event);
      long hash = hash(text);
      counted.add(text, hash);
      return partOf[keyGroup(hash)];
    };
  }

  /** The hash of a key, by its text: its place on the ring. */
  static long hash(UTF8String key) {
    return XXH64.hashUTF8String(key, SEED);
  }

  /** The group of a key, by its hash. */
  static int keyGroup(long hash) {
    return (int) (hash >>> 48);
  }
}
