package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * How far a query has read: the last entry id of every channel that carries its stream; and whether it has noted since that
 * nothing came. That note makes a batch without events, by which what waits for silence is told of it; written it is a
 * blank behind the entries, which whoever else reads them does not see.
 */
final class ChannelOffset extends Offset {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final String BLANK = " ";

  final Map<String, String> entries; // channel -> entry id
  final boolean notesSilence;

  ChannelOffset(Map<String, String> entries) {
    this(entries, false);
  }

  private ChannelOffset(Map<String, String> entries, boolean notesSilence) {
    this.entries = Collections.unmodifiableMap(new TreeMap<>(entries));
    this.notesSilence = notesSilence;
  }

  /** The same place, with the note that nothing has come. */
  ChannelOffset silent() {
    return new ChannelOffset(entries, true);
  }

  @SuppressWarnings("unchecked")
  static ChannelOffset parse(String json) {
    try {
      return new ChannelOffset(JSON.readValue(json, Map.class), json.endsWith(BLANK));
    } catch (JsonProcessingException broken) {
      throw new IllegalArgumentException("not an offset of a channel: " + json, broken);
    }
  }

  @Override
  public String json() {
    try {
      return JSON.writeValueAsString(entries) + (notesSilence ? BLANK : "");
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
