package weir;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What every input of a query is: held back and paced by its query's control, and read by micro-batches or open ones. */
abstract class LiveStream
    implements MicroBatchStream, SupportsAdmissionControl, ReportsSourceMetrics, SupportsRealTimeMode, Live, Waves.Carrier {
  protected final String id = UUID.randomUUID().toString();
  protected final Broker broker;
  protected final Backpressure backpressure;
  protected final Arrivals.Bell bell;
  protected final long waitMs;
  protected final long maxRows;
  protected final Gate gate; // null where the query does not stand by
  protected final Ranges ranges; // null where none are recorded
  protected final WaveStamp stamp; // null where it begins no waves
  protected final long openMs; // for how long a batch stays open in real-time mode; 0: micro-batches
  private final long openEvents;
  private final String checkpoint;
  private volatile long waitedMs; // of the last batch that was open
  protected long askedAt;

  /** @param topics what rings besides what its query writes and is told */
  LiveStream(CaseInsensitiveStringMap options, String checkpoint, boolean readsChannels, List<String> topics) {
    broker = Broker.at(options.get("redis_url"));
    backpressure = new Backpressure(broker, options.get("reader"), options.get("writes"), readsChannels);
    List<String> all = backpressure.topics();
    all.addAll(topics);
    bell = broker.arrivals.subscribe(all);
    waitMs = options.getLong("wait_ms", 0);
    maxRows = options.getLong("max_rows", 100_000);
    gate = Gate.of(broker, options);
    ranges = Ranges.of(broker, options);
    stamp = WaveStamp.of(broker, options);
    openMs = options.getLong("real_time", 0);
    openEvents = options.getLong("open_events", 1);
    this.checkpoint = checkpoint;
    LiveReader.register(id, this);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return offset(json);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] ends) {
    return offset(LiveReader.End.of(ends));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(start, limit) is called instead");
  }

  @Override
  public boolean standsBy() {
    return gate != null && !gate.isOpen();
  }

  @Override
  public Arrivals.Bell bell() {
    return bell;
  }

  @Override
  public String journals() {
    return Journal.folder(checkpoint);
  }

  @Override
  public Backpressure backpressure() {
    return backpressure;
  }

  @Override
  public void waited(long ms) {
    waitedMs = ms;
  }

  @Override
  public long openMs() {
    return openMs;
  }

  @Override
  public long openEvents() {
    return openEvents;
  }

  @Override
  public void stop() {
    LiveReader.forget(id);
    broker.arrivals.unsubscribe(bell);
    backpressure.forget();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    return Map.of("throttled_by", backpressure.throttledBy(), "waited_ms", Long.toString(waitedMs));
  }
}
