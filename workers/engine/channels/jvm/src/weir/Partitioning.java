package weir;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** How a stream is divided among the parts of one reader; what a change of a route asks for: a {@link Quota} or a {@link Ring}. */
interface Partitioning {
  /** The channels of the parts that get events. */
  List<String> parts();

  /**
   * Deals out the events of one batch, which have this schema: of a repeated batch as before. Who divides by keys counts
   * them in {@code counts}.
   */
  Partitioner partitioner(long batch, StructType schema, Supplier<KeyCounts> counts);

  /** What the parts are told in one batch of the marks of partitions; null where they are not. */
  default PartitionMarks marks(StructType schema) {
    return null;
  }

  /** What a document says: the tokens of a ring, or weights by part. */
  static Partitioning of(JsonNode document) {
    if (document.has("tokens")) return new Ring(document);
    Map<String, Double> weights = new LinkedHashMap<>();
    document.properties().forEach(weight -> weights.put(weight.getKey(), weight.getValue().asDouble()));
    return new Quota(weights);
  }

  /** Which part each event of a batch goes to, in their order. */
  interface Partitioner {
    int next(InternalRow event);
  }
}
