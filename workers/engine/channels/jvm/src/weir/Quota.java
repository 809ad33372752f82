package weir;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.types.StructType;

/** In proportion to weights, by the Quota Method; a part whose weight is not above zero gets nothing. */
final class Quota implements Partitioning {
  private final Map<String, Double> weights = new LinkedHashMap<>();

  Quota(Map<String, Double> weights) {
    weights.forEach((part, weight) -> {
      if (weight > 0) this.weights.put(part, weight);
    });
  }

  @Override
  public List<String> parts() {
    return new ArrayList<>(weights.keySet());
  }

  @Override
  public Partitioner partitioner(long batch, StructType schema, Supplier<KeyCounts> counts) {
    QuotaPartitioner dealt = new QuotaPartitioner(QuotaPartitioner.shares(weights), batch);
    return event -> dealt.next();
  }

  /** By part; all above zero. */
  Map<String, Double> weights() {
    return weights;
  }
}
