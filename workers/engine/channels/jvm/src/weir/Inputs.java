package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What the queries of this driver read: Python tells one that rests between two batches to go on with other channels. */
public final class Inputs {
  private static final Map<String, ChannelStream> STREAMS = new ConcurrentHashMap<>(); // by broker, reader and number

  private Inputs() {}

  static void begins(String url, String reader, int number, ChannelStream stream) {
    STREAMS.put(key(url, reader, number), stream);
  }

  static void end(ChannelStream stream) {
    STREAMS.values().remove(stream);
  }

  /**
   * From its next batch on a query reads these channels, a list for each of its streams (JSON). The caller lets it rest
   * meanwhile, and has noted them: a batch that is repeated reads what it read, whichever channels are read by then.
   */
  public static void read(String url, String reader, String streams) throws JsonProcessingException {
    List<List<String>> all = new ObjectMapper().readValue(streams, new TypeReference<List<List<String>>>() {});
    List<String> siblings = all.stream().flatMap(List::stream).toList();
    for (int number = 0; number < all.size(); number++) {
      if (!STREAMS.containsKey(key(url, reader, number))) {
        throw new IllegalStateException("no query of " + reader + " reads a stream " + number + " in this driver");
      }
    }
    for (int number = 0; number < all.size(); number++) STREAMS.get(key(url, reader, number)).read(all.get(number), siblings);
  }

  private static String key(String url, String reader, int number) {
    return url + ' ' + reader + ' ' + number;
  }
}
