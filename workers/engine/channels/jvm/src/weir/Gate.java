package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What a source waits at whose query stands by: it was started before its turn, and plans one empty batch, so that all
 * that a first batch costs is paid, and then none until its fragment's control says what it begins with. A query that is
 * started when its turn has come has no gate.
 */
final class Gate {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long ASK_ANYWAY_MS = 1_000;

  private final Broker broker;
  private final String fragment;
  private final String token; // of this start of the query
  private boolean hasPlanned; // the empty batch
  private JsonNode beginning; // null while it is closed

  /** The gate that options ask for; null for none. */
  static Gate of(Broker broker, CaseInsensitiveStringMap options) {
    String token = options.getOrDefault("gate", "");
    return token.isEmpty() ? null : new Gate(broker, options.get("reader"), token);
  }

  private Gate(Broker broker, String fragment, String token) {
    this.broker = broker;
    this.fragment = fragment;
    this.token = token;
  }

  /** What the query that waits at a gate begins with, by the control that says so; null where it does not. */
  static JsonNode parse(String text) {
    try {
      return text == null ? null : JSON.readTree(text);
    } catch (JsonProcessingException broken) {
      throw new IllegalStateException("not what a query begins with: " + text, broken);
    }
  }

  boolean isOpen() {
    return beginning != null;
  }

  /** Waits until it opens, at most until {@code deadline}; whether it is open. It does not wait for the empty batch. */
  boolean opens(Arrivals.Bell bell, long deadline) {
    while (beginning == null) {
      bell.heard();
      beginning = parse(Redis.text(broker.call(redis -> redis.call("HGET", Keys.valve(fragment), Keys.gate(token)))));
      boolean isFirst = !hasPlanned;
      hasPlanned = true;
      if (beginning == null && (isFirst || !bell.await(deadline - System.currentTimeMillis()))) return false;
    }
    return true;
  }

  /** For a batch that is opened: waits until it is open; false at once for the empty batch. */
  boolean waits(Arrivals.Bell bell) {
    boolean isFirst = !hasPlanned;
    while (!opens(bell, System.currentTimeMillis() + ASK_ANYWAY_MS)) if (isFirst) return false;
    return true;
  }

  /** A member of what the query begins with, as text; null where it has none. */
  String says(String member) {
    JsonNode node = beginning.get(member);
    return node == null || node.isNull() ? null : node.toString();
  }
}
