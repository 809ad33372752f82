package weir;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** Counts events by key with {@code transformWithState}: what Spark's own state costs on the JVM. */
public final class KeyedCount extends StatefulProcessor<String, Row, Long> {
  private final boolean givesSent;
  private transient ValueState<Long> count;

  private KeyedCount(boolean givesSent) {
    this.givesSent = givesSent;
  }

  /** For each event of a stream with the column {@code key} the count of its key so far; or its column {@code sent}. */
  public static Dataset<Row> of(Dataset<Row> events, boolean givesSent) {
    MapFunction<Row, String> key = row -> row.getAs("key");
    OutputMode mode = givesSent ? OutputMode.Update() : OutputMode.Append();
    return events.groupByKey(key, Encoders.STRING())
        .transformWithState(new KeyedCount(givesSent), TimeMode.None(), mode, Encoders.LONG()).toDF("n");
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    count = getHandle().getValueState("count", Encoders.LONG(), TTLConfig.NONE());
  }

  @Override
  public Iterator<Long> handleInputRows(String key, Iterator<Row> rows, TimerValues timers) {
    long events = count.exists() ? count.get() : 0;
    List<Long> given = new ArrayList<>();
    while (rows.hasNext()) {
      Row row = rows.next();
      events++;
      given.add(givesSent ? (Long) row.getAs("sent") : Long.valueOf(events));
    }
    count.update(events);
    return CollectionConverters.asScala(given.iterator());
  }
}
