package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** How far ticks have come: the next sequence number, and the time at which number 0 was, or would have been, due. */
final class TicksOffset extends Offset {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Of a query that stands by: it has not begun, and goes on with what it is told then. */
  static final TicksOffset NOT_BEGUN = new TicksOffset(0, -1);

  final long t0;
  final long next;

  TicksOffset(long t0, long next) {
    this.t0 = t0;
    this.next = next;
  }

  boolean hasBegun() {
    return next >= 0;
  }

  static TicksOffset parse(String json) {
    try {
      JsonNode node = JSON.readTree(json);
      return new TicksOffset(node.get("t0").asLong(), node.get("next").asLong());
    } catch (JsonProcessingException | NullPointerException broken) {
      throw new IllegalArgumentException("not an offset of ticks: " + json, broken);
    }
  }

  @Override
  public String json() {
    return "{\"t0\":" + t0 + ",\"next\":" + next + "}";
  }
}
