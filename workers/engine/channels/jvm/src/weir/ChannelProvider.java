package weir;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code spark.readStream.format("weir.ChannelProvider").schema(…)}: the blocks of the channels of one stream, as rows.
 *
 * <p>Options: {@code redis_url}, {@code channels} (separated by commas), {@code reader} (the fragment that reads),
 * {@code writes} (channels that the query writes), {@code siblings} (all channels that the query reads), {@code wait_ms},
 * {@code stream} (its number among those of the query), {@code max_blocks} (of a batch, or {@code blocks_each} of its
 * channels where that is more), {@code max_rows}, {@code threads} (into how many partitions a batch is cut), {@code begin} (JSON: by
 * channel, the entry up to which everything is left out), {@code gate} (the token of a query that stands by, see {@link Gate}),
 * {@code source} (the running task at which waves begin here, see {@link WaveStamp}).
 */
public final class ChannelProvider implements TableProvider {
  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    throw new IllegalArgumentException("a channel is read with the schema of its stream: call .schema(…)");
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    String channels = properties.getOrDefault("channels", "?");
    return new EventTable("weir channel " + channels, schema, (options, checkpoint) -> new ChannelStream(schema, options, checkpoint));
  }
}
