package weir;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The driver's side of reading a channel: which blocks make the next batch, and which are done with. */
final class ChannelStream implements MicroBatchStream, SupportsAdmissionControl, ReportsSourceMetrics {
  private static final long ASK_ANYWAY_MS = 1_000; // a lost message costs a second at most

  private final StructType schema;
  private final String url;
  private final Broker broker;
  private final String reader;
  private final List<String> channels = new ArrayList<>(); // one a partition
  private final Gates gates;
  private final Arrivals.Bell bell;
  private final long waitMs;
  private final int maxBlocks;
  private final long maxRows;
  private final String begin;
  private final String id = UUID.randomUUID().toString();
  private long askedAt;
  private Offset committed;

  ChannelStream(StructType schema, CaseInsensitiveStringMap options) {
    this.schema = schema;
    url = options.get("redis_url");
    broker = Broker.at(url);
    reader = options.get("reader");
    String channel = options.get("channel");
    int partitions = options.getInt("partitions", 1);
    for (int i = 0; i < partitions; i++) channels.add(Keys.partition(channel, i, partitions));
    gates = new Gates(broker, reader, options.get("gates"));
    waitMs = options.getLong("wait_ms", 0);
    maxBlocks = options.getInt("max_blocks", 64);
    maxRows = options.getLong("max_rows", 100_000);
    begin = options.getOrDefault("begin", "0-0");
    // A query with several inputs waits in one of them for all.
    List<String> topics = gates.topics();
    channels.forEach(own -> topics.add(Keys.channel(own)));
    Gates.split(options.get("siblings")).forEach(sibling -> topics.add(Keys.channel(sibling)));
    bell = broker.arrivals.subscribe(topics);
  }

  /** Where the query starts without a checkpoint: the place at which the reader was registered. */
  @Override
  public Offset initialOffset() {
    Map<String, String> entries = new HashMap<>();
    for (String channel : channels) {
      Object place = broker.call(redis -> redis.call("HGET", Keys.readers(channel), reader));
      if (place == null) {
        throw new IllegalStateException(
            "'" + reader + "' is not a reader of channel " + channel + ": register it before the query starts");
      }
      entries.put(channel, Redis.text(place));
    }
    return new ChannelOffset(entries);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return ChannelOffset.parse(json);
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(start, limit) is called instead");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    ChannelOffset from = (ChannelOffset) start;
    commit(from);
    long deadline = System.currentTimeMillis() + waitMs;
    do {
      long now = System.currentTimeMillis();
      if (bell.heard() || now - askedAt >= ASK_ANYWAY_MS) {
        askedAt = now;
        ChannelOffset end = ask(from);
        if (end != from) return end;
      }
    } while (!gates.isPaused() && bell.await(deadline - System.currentTimeMillis()));
    return from;
  }

  /** One round trip: the gates, and the next blocks of every partition, kept for the batch that will read them. */
  private ChannelOffset ask(ChannelOffset from) {
    List<Object[]> commands = gates.questions();
    for (String channel : channels) {
      String after = after(from, channel);
      commands.add(new Object[] {"HMGET", Keys.meta(channel), "trimmed", "last"});
      commands.add(new Object[] {"XRANGE", Keys.channel(channel), "(" + after, "+", "COUNT", maxBlocks});
    }
    List<Object> replies = broker.pipeline(commands);
    boolean closed = gates.isClosed(replies);
    Map<String, String> end = new HashMap<>(from.entries);
    for (int i = 0; i < channels.size(); i++) {
      String channel = channels.get(i);
      int at = gates.size() + 2 * i;
      ChannelReader.checkUnbroken(channel, after(from, channel), (List<?>) replies.get(at));
      List<?> entries = (List<?>) replies.get(at + 1);
      if (closed || entries.isEmpty()) continue;
      List<Block> blocks = admit(entries);
      String last = blocks.get(blocks.size() - 1).id;
      end.put(channel, last);
      ReadAhead.keep(id, channel, last, blocks);
      // More may be waiting than one batch takes: look again without waiting for a message.
      if (blocks.size() < entries.size() || entries.size() == maxBlocks) bell.ring();
    }
    return end.equals(from.entries) ? from : new ChannelOffset(end);
  }

  /** The entry after which a batch that starts there begins: a reader that was paused leaves out what came meanwhile. */
  private String after(ChannelOffset from, String channel) {
    String entry = from.entries.get(channel);
    return ChannelOffset.compare(entry, begin) < 0 ? begin : entry;
  }

  private List<Block> admit(List<?> entries) {
    List<Block> blocks = new ArrayList<>(entries.size());
    long rows = 0;
    for (Object entry : entries) {
      Block block = Block.of(entry);
      rows += block.events;
      if (rows > maxRows && !blocks.isEmpty()) break;
      blocks.add(block);
    }
    return blocks;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    long now = System.currentTimeMillis();
    ChannelOffset from = (ChannelOffset) start;
    Map<String, String> to = ((ChannelOffset) end).entries;
    return channels.stream()
        .map(channel -> new ChannelReader.Range(url, id, channel, reader, after(from, channel), to.get(channel), now))
        .toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ChannelReader.Factory(schema);
  }

  /**
   * The batch up to {@code end} is done: note it, and free what no other reader needs either. Spark says so only when
   * it has planned the next batch, which may never come where the writer waits for room; but when it asks for the next
   * batch after {@code end}, that one is in its commit log already.
   */
  @Override
  public void commit(Offset end) {
    if (end.equals(committed)) return;
    ((ChannelOffset) end).entries.forEach((channel, entry) -> {
      ReadAhead.drop(id, channel);
      List<String> keys = List.of(Keys.channel(channel), Keys.meta(channel), Keys.readers(channel));
      broker.call(redis -> Broker.Script.COMMIT.run(redis, keys, reader, entry));
    });
    committed = end;
  }

  @Override
  public void stop() {
    broker.arrivals.unsubscribe(bell);
    gates.forget();
    channels.forEach(channel -> ReadAhead.drop(id, channel));
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    return Map.of("throttled_by", gates.throttledBy());
  }

  @Override
  public String toString() {
    return "weir channel " + String.join(",", channels);
  }
}
