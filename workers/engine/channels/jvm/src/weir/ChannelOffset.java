package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** How far a query has read: the last entry id of every channel that carries its stream. */
final class ChannelOffset extends Offset {
  private static final ObjectMapper JSON = new ObjectMapper();

  final Map<String, String> entries; // channel -> entry id

  ChannelOffset(Map<String, String> entries) {
    this.entries = Collections.unmodifiableMap(new TreeMap<>(entries));
  }

  @SuppressWarnings("unchecked")
  static ChannelOffset parse(String json) {
    try {
      return new ChannelOffset(JSON.readValue(json, Map.class));
    } catch (JsonProcessingException broken) {
      throw new IllegalArgumentException("not an offset of a channel: " + json, broken);
    }
  }

  @Override
  public String json() {
    try {
      return JSON.writeValueAsString(entries);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** Compares two entry ids, {@code <ms>-<sequence>}. */
  static int compare(String a, String b) {
    int dashA = a.indexOf('-');
    int dashB = b.indexOf('-');
    int first = Long.compare(Long.parseLong(a.substring(0, dashA)), Long.parseLong(b.substring(0, dashB)));
    if (first != 0) return first;
    return Long.compare(Long.parseLong(a.substring(dashA + 1)), Long.parseLong(b.substring(dashB + 1)));
  }
}
