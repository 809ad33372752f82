package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Lets tests call the channels without a query: of the package, so that nothing there is public for tests alone. */
public final class Probe {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Probe() {}

  /** The part, by its index, of each of the first {@code count} events of a batch. */
  public static int[] dealt(double[] weights, long batch, int count) {
    Map<String, Double> byPart = new LinkedHashMap<>();
    for (double weight : weights) byPart.put(String.valueOf(byPart.size()), weight);
    QuotaPartitioner partitioner = new QuotaPartitioner(QuotaPartitioner.shares(byPart), batch);
    int[] parts = new int[count];
    for (int i = 0; i < count; i++) parts[i] = partitioner.next();
    return parts;
  }

  /** The key group of each row, and the part of a ring (JSON) that gets it, in turn. */
  public static String[] dealtByKey(Dataset<Row> rows, String ring) throws JsonProcessingException {
    JsonNode document = JSON.readTree(ring);
    List<String> by = new ArrayList<>();
    document.get("by").forEach(column -> by.add(column.asText()));
    KeyText key = new KeyText(by, rows.schema());
    Partitioning how = Partitioning.of(document);
    Partitioning.Partitioner partitioner = how.partitioner(0, rows.schema(), KeyCounts::new);
    List<String> dealt = new ArrayList<>();
    for (InternalRow row : rows.queryExecution().executedPlan().executeCollect()) {
      dealt.add(String.valueOf(Ring.keyGroup(Ring.hash(key.of(row)))));
      dealt.add(how.parts().get(partitioner.next(row)));
    }
    return dealt.toArray(new String[0]);
  }

  /** What a writer reports of the keys of these rows, as JSON, after it dealt them out by a ring (JSON) so many times. */
  public static String keysCounted(Dataset<Row> rows, String ring, int times) throws JsonProcessingException {
    KeyCounts counts = new KeyCounts();
    Partitioning.Partitioner partitioner =
        Partitioning.of(JSON.readTree(ring)).partitioner(0, rows.schema(), () -> counts);
    InternalRow[] events = rows.queryExecution().executedPlan().executeCollect();
    for (int time = 0; time < times; time++) for (InternalRow event : events) partitioner.next(event);
    return counts.document(0);
  }

  /** What a part is told before each row that it gets, and behind the last one (null: nothing), where a ring deals. */
  public static String[] marksTold(Dataset<Row> rows, String ring, int part) throws JsonProcessingException {
    Partitioning how = Partitioning.of(JSON.readTree(ring));
    Partitioning.Partitioner partitioner = how.partitioner(0, rows.schema(), KeyCounts::new);
    PartitionMarks marks = how.marks(rows.schema());
    List<String> told = new ArrayList<>();
    for (InternalRow row : rows.queryExecution().executedPlan().executeCollect()) {
      int own = partitioner.next(row);
      UTF8String text = marks.before(row, own);
      if (own == part) told.add(text == null ? null : text.toString());
    }
    InternalRow behind = marks.behind(part);
    told.add(behind == null ? null : behind.getUTF8String(rows.schema().length()).toString());
    return told.toArray(new String[0]);
  }

  /** The histogram bucket of a latency. */
  public static int bucket(long ms) {
    return Meters.bucket(ms);
  }

  /** Fails where a reader lacks entries. */
  public static void checkUnbroken(String channel, String start, String trimmed, String last) {
    ChannelReader.checkUnbroken(channel, start, Arrays.asList(trimmed.getBytes(), last.getBytes()));
  }

  /** What a batch sees of a fragment's control at a position, as JSON: publishes, passes, routes (weights by part). */
  public static String control(String url, String fragment, String run, long batch, int position)
      throws JsonProcessingException {
    Control control = Control.of(Broker.at(url), fragment, run, batch);
    return JSON.writeValueAsString(Map.of("publishes", control.publishes(position), "passes", control.passes(position),
        "routes", control.routes(position).values().stream().map(how -> ((Quota) how).weights()).toArray()));
  }

  /** The events of a block, read as a query does whose memory is not for its writer; or why it reads none. */
  public static String blockRead(byte[] payload, long events) {
    long rows = 0;
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("probe", 0, Long.MAX_VALUE);
        CheckedBlock block = CheckedBlock.open("a.0", new Block("7-0", payload, events, 0), allocator)) {
      while (block.loadNextBatch()) rows += block.getVectorSchemaRoot().getRowCount();
    } catch (IOException | IllegalStateException refused) {
      return refused.getMessage();
    }
    return String.valueOf(rows);
  }

  /** The same of many, in turn: each as its events, a colon and Base64; so many were read. */
  public static int blocksRead(List<String> blocks) {
    int read = 0;
    for (String block : blocks) {
      int colon = block.indexOf(':');
      String told = blockRead(Base64.getDecoder().decode(block.substring(colon + 1)), Long.parseLong(block.substring(0, colon)));
      if (told.matches("\\d+")) read++;
      else if (!told.contains("that no query of Weir wrote")) throw new IllegalStateException(told);
    }
    return read;
  }

  /** A source of channels, as Spark makes one for a query that starts. */
  public static MicroBatchStream source(StructType schema, Map<String, String> options) {
    return new ChannelStream(schema, new CaseInsensitiveStringMap(options), null);
  }

  /** The slices of a batch as JSON: of each its pieces, as channel, start, end, skip, take. */
  public static String slices(MicroBatchStream source, Offset start, Offset end) throws JsonProcessingException {
    List<List<List<Object>>> slices = new ArrayList<>();
    for (InputPartition partition : source.planInputPartitions(start, end)) {
      List<List<Object>> pieces = new ArrayList<>();
      for (Slice.Piece piece : ((Slice) partition).pieces) {
        pieces.add(List.of(piece.channel, piece.start, piece.end, piece.skip, piece.take));
      }
      slices.add(pieces);
    }
    return JSON.writeValueAsString(slices);
  }

  /**
   * When each batch of some queries began and ended, in ms, as query, begin, end: on a clock of the test's own, in one
   * driver with one core, which batches that run at the same time share. All are due at first.
   */
  public static long[][] turns(int queries, long intervalMs, long workMs, long forMs) {
    Turns turns = new Turns();
    List<Pace> paces = new ArrayList<>();
    for (int query = 0; query < queries; query++) {
      paces.add(new Pace(turns));
      paces.get(query).set(intervalMs);
    }
    List<long[]> batches = new ArrayList<>();
    long[] begunAt = new long[queries];
    double[] left = new double[queries];
    long start = 1_000_000;
    for (long now = start; now < start + forMs; now++) {
      long running = Arrays.stream(left).filter(work -> work > 0).count();
      for (int query = 0; query < queries; query++) {
        if (left[query] > 0) {
          left[query] -= 1.0 / running;
          if (left[query] <= 0) batches.add(new long[] {query, begunAt[query] - start, now - start});
        } else if (paces.get(query).leftMs(now, false) == 0) {
          paces.get(query).begins(now);
          paces.get(query).isPlanned();
          begunAt[query] = now;
          left[query] = workMs;
        }
      }
    }
    return batches.toArray(new long[0][]);
  }
}
