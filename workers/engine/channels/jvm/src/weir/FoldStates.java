package weir;

import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;

/**
 * The state of a fold (workers/library/state.py) out of the store that its query has open in this JVM: a hundred times as
 * fast as by a query of Spark's, while events wait. The query must be at rest.
 */
public final class FoldStates {
  private static final StructType KEY = new StructType().add("_group", DataTypes.IntegerType);
  private static final StructType VALUE =
      new StructType().add("groupState", new StructType().add("states", DataTypes.StringType));

  private FoldStates() {}

  /** The state after {@code version} commits, empty where the fold had no event; null where no store is open. */
  public static String read(SparkSession session, String checkpoint, String run, long operator, long version) {
    StateStoreId store = new StateStoreId("file:" + checkpoint + "/state", operator, 0, "default");
    StateStoreProviderId provider = new StateStoreProviderId(store, UUID.fromString(run));
    if (!StateStore$.MODULE$.isLoaded(provider)) return null;
    Configuration hadoop = session.sessionState().newHadoopConf();
    ReadStateStore state = StateStore$.MODULE$.getReadOnly(
        provider, KEY, VALUE, new NoPrefixKeyStateEncoderSpec(KEY), version, Option.empty(), Option.empty(), false,
        new StateStoreConf(session.sessionState().conf(), scala.collection.immutable.Map$.MODULE$.empty()), hadoop, false);
    try {
      Iterator<UnsafeRowPair> rows = state.iterator("default");
      if (!rows.hasNext()) return "";
      UnsafeRow value = rows.next().value();
      return value.isNullAt(0) ? "" : value.getStruct(0, 1).getUTF8String(0).toString();
    } finally {
      state.release();
    }
  }
}
