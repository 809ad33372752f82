package weir;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
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

  /**
   * Writes the state after {@code version} commits into a file, as UTF-8.
   *
   * <p>Not as an answer: what py4j answers in more than 8 KB waits 40 ms for a late acknowledgement.
   *
   * @return how many bytes: 0 where the fold had no event, and nothing is written; -1 where no store is open
   */
  public static long write(
      SparkSession session, String checkpoint, String run, long operator, long version, String file)
      throws IOException {
    StateStoreId store = new StateStoreId("file:" + checkpoint + "/state", operator, 0, "default");
    StateStoreProviderId provider = new StateStoreProviderId(store, UUID.fromString(run));
    if (!StateStore$.MODULE$.isLoaded(provider)) return -1;
    Configuration hadoop = session.sessionState().newHadoopConf();
    ReadStateStore state = StateStore$.MODULE$.getReadOnly(
        provider, KEY, VALUE, new NoPrefixKeyStateEncoderSpec(KEY), version, Option.empty(), Option.empty(), false,
        new StateStoreConf(session.sessionState().conf(), scala.collection.immutable.Map$.MODULE$.empty()), hadoop, false);
    try {
      Iterator<UnsafeRowPair> rows = state.iterator("default");
      if (!rows.hasNext()) return 0;
      UnsafeRow value = rows.next().value();
      if (value.isNullAt(0)) return 0;
      byte[] text = value.getStruct(0, 1).getUTF8String(0).getBytes();
      Files.write(Path.of(file), text);
      return text.length;
    } finally {
      state.release();
    }
  }
}
