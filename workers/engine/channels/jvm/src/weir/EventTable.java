package weir;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Spark asks of any source before it reads: a name, a schema, and a stream of micro-batches. */
final class EventTable implements Table, SupportsRead {
  /** Makes the stream for one start of a query. */
  interface Opening {
    MicroBatchStream open(CaseInsensitiveStringMap options, String checkpoint);
  }

  private final String name;
  private final StructType schema;
  private final Opening opening;

  EventTable(String name, StructType schema, Opening opening) {
    this.name = name;
    this.schema = schema;
    this.opening = opening;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.MICRO_BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return () -> new Scan() {
      @Override
      public StructType readSchema() {
        return schema;
      }

      @Override
      public String description() {
        return name;
      }

      @Override
      public ColumnarSupportMode columnarSupportMode() {
        // In real-time mode Spark takes rows, one after the other.
        return options.getLong("real_time", 0) > 0 ? ColumnarSupportMode.UNSUPPORTED : ColumnarSupportMode.SUPPORTED;
      }

      @Override
      public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
        return opening.open(options, checkpointLocation);
      }
    };
  }
}
