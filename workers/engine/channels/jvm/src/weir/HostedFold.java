package weir;

import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;

/**
 * A fold at the slot's fold host (workers/engine/spark/fold_host.py), which keeps its states. To Spark it is a function of rows
 * without state, so a batch may stay open: the rows of a group go to the host when the group ends, and what comes back goes on.
 */
public final class HostedFold implements MapPartitionsFunction<Row, Row> {
  private static final int AT_ONCE = 2_000; // rows in a message; a fold gives the same however its events are cut

  private final FoldSession.Spec spec;
  private final boolean isOpen;

  private HostedFold(FoldSession.Spec spec, boolean isOpen) {
    this.spec = spec;
    this.isOpen = isOpen;
  }

  /**
   * What a fold gives of a stream.
   *
   * @param gives its columns, as Spark's JSON
   * @param socket the host's
   * @param folder where the states are kept, a file for each batch
   * @param definition the fold, as the host reads it
   * @param isOpen whether the query's batches stay open
   */
  public static Dataset<Row> behind(
      Dataset<Row> events, String gives, String socket, String folder, byte[] definition, boolean isOpen) {
    StructType columns = (StructType) DataType.fromJson(gives);
    FoldSession.Spec spec = new FoldSession.Spec(events.schema(), columns, socket, folder, definition);
    return events.coalesce(1).mapPartitions(new HostedFold(spec, isOpen), Encoders.row(columns));
  }

  @Override
  public Iterator<Row> call(Iterator<Row> events) {
    TaskContext context = TaskContext.get();
    FoldSession session = new FoldSession(spec, Long.parseLong(context.getLocalProperty("streaming.sql.batchId")));
    context.addTaskCompletionListener((TaskCompletionListener) ended -> session.close());
    return isOpen ? new GroupFeeder(events, session, context, AT_ONCE) : new Pulled(events, session);
  }

  /** Of a micro-batch: pulls its events, some at a time. */
  private static final class Pulled implements Iterator<Row> {
    private final Iterator<Row> events;
    private final FoldSession session;
    private Iterator<Row> given = Collections.emptyIterator();
    private boolean isOver;

    Pulled(Iterator<Row> events, FoldSession session) {
      this.events = events;
      this.session = session;
    }

    @Override
    public boolean hasNext() {
      while (!given.hasNext() && !isOver) {
        for (int rows = 0; rows < AT_ONCE && events.hasNext(); rows++) session.add(events.next());
        given = session.work();
        isOver = !events.hasNext();
        if (isOver) session.save();
      }
      return given.hasNext();
    }

    @Override
    public Row next() {
      return given.next();
    }
  }
}
