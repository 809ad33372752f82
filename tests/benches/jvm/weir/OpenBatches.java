package weir;

import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.DataStreamWriter;
import scala.jdk.javaapi.CollectionConverters;

/** Events for batches of real-time mode, and how long each took to its sink. */
public final class OpenBatches {
  private static final ConcurrentLinkedQueue<Long> TOOK_NS = new ConcurrentLinkedQueue<>();

  private final LowLatencyMemoryStream<String> events;

  public OpenBatches(SparkSession spark) {
    events = LowLatencyMemoryStream.singlePartition(spark, Encoders.STRING());
  }

  /** {@code key}, and when it was {@code sent} (ns). */
  public Dataset<Row> stream() {
    return events.toDF().select(
        functions.split_part(functions.col("value"), functions.lit(" "), functions.lit(1)).as("key"),
        functions.split_part(functions.col("value"), functions.lit(" "), functions.lit(2)).cast("long").as("sent"));
  }

  public void send(String key) {
    events.addData(CollectionConverters.asScala(List.of(key + ' ' + System.nanoTime())).toSeq());
  }

  /** Ends in a writer that notes how long ago the first column of each row was. */
  public static DataStreamWriter<Row> noted(Dataset<Row> sent) {
    TOOK_NS.clear();
    return sent.writeStream().outputMode("update").foreach(new Notes());
  }

  public static long[] tookNs() {
    return TOOK_NS.stream().mapToLong(Long::longValue).toArray();
  }

  private static final class Notes extends ForeachWriter<Row> {
    @Override
    public boolean open(long partition, long epoch) {
      return true;
    }

    @Override
    public void process(Row row) {
      TOOK_NS.add(System.nanoTime() - row.getLong(0));
    }

    @Override
    public void close(Throwable failed) {}
  }
}
