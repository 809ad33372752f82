package weir;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * What alternates that work for single keys make, in one order again (docs/dynamic.md): of the next events of all of them, the
 * one with the smallest number goes first. So the order is that of the stream where that goes by numbers, as behind one source;
 * what an alternate makes is in its own order in any case.
 */
public final class InTurn implements MapPartitionsFunction<Row, Row> {
  private final int seq; // where the number stands; the alternate's own number stands last

  private InTurn(int seq) {
    this.seq = seq;
  }

  /** A stream without its last column, which says by a number which alternate has made a row. */
  public static Dataset<Row> ordered(Dataset<Row> made) {
    String last = made.columns()[made.columns().length - 1];
    return made.coalesce(1).mapPartitions(
        new InTurn(made.schema().fieldIndex("_seq")), Encoders.row(made.drop(last).schema()));
  }

  @Override
  public java.util.Iterator<Row> call(java.util.Iterator<Row> rows) {
    Map<Integer, List<Row>> byAlternate = new TreeMap<>();
    rows.forEachRemaining(
        row -> byAlternate.computeIfAbsent(row.getInt(row.length() - 1), unused -> new ArrayList<>()).add(row));
    return new Merged(new ArrayList<>(byAlternate.values()), seq);
  }

  private static final class Merged implements java.util.Iterator<Row> {
    private final List<List<Row>> lists;
    private final int[] next;
    private final int seq;

    Merged(List<List<Row>> lists, int seq) {
      this.lists = lists;
      this.next = new int[lists.size()];
      this.seq = seq;
    }

    @Override
    public boolean hasNext() {
      return first() >= 0;
    }

    @Override
    public Row next() {
      int first = first();
      if (first < 0) throw new java.util.NoSuchElementException();
      Row row = lists.get(first).get(next[first]++);
      Object[] values = new Object[row.length() - 1];
      for (int i = 0; i < values.length; i++) values[i] = row.get(i);
      return RowFactory.create(values);
    }

    private int first() {
      int first = -1;
      for (int i = 0; i < next.length; i++) {
        boolean isOver = next[i] == lists.get(i).size();
        if (!isOver && (first < 0 || head(i).getLong(seq) < head(first).getLong(seq))) first = i;
      }
      return first;
    }

    private Row head(int list) {
      return lists.get(list).get(next[list]);
    }
  }
}
