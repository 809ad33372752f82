package weir;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code spark.readStream.format("weir.TicksProvider")}: sequence numbers on a schedule, with the columns
 * {@code _seq}, {@code _time}, {@code _born}.
 *
 * <p>Options: {@code redis_url}, {@code reader} (the fragment), {@code rate_per_s} or {@code schedule_file},
 * {@code limit}, {@code writes}, {@code wait_ms}, {@code max_rows}, {@code catch_up_ms}, {@code begin} (an offset),
 * {@code gate} (the token of a query that stands by, see {@link Gate}).
 */
public final class TicksProvider implements TableProvider {
  static final StructType SCHEMA = new StructType()
      .add("_seq", DataTypes.LongType, false)
      .add("_time", DataTypes.LongType, false)
      .add("_born", DataTypes.LongType, false);

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new EventTable("weir ticks", SCHEMA, TicksStream::new);
  }
}
