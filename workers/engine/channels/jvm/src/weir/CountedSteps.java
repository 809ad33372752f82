package weir;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What functions do that work on a list, element by element, counted in bytes that they make: a list with which the
 * outermost of them begins (a site of its own), or what one makes of an element (no site). Spark works on functions of
 * lists without generated code, each on one thread from its list to its last element.
 */
public final class CountedSteps extends Expression implements CodegenFallback, Serializable {
  private static final long STEP = 16; // what an element takes where it has no size of its own
  private static final ThreadLocal<long[]> LEFT = ThreadLocal.withInitial(() -> new long[] {Long.MAX_VALUE});
  private static final ThreadLocal<long[]> MATCHING = ThreadLocal.withInitial(() -> new long[1]);

  private final Expression value;
  private final long most;
  private final int site;
  private final String place;

  CountedSteps(Expression value, long most, int site, String place) {
    this.value = value;
    this.most = most;
    this.site = site;
    this.place = place;
  }

  @Override
  public Object eval(InternalRow row) {
    Object made = value.eval(row);
    long[] left = LEFT.get();
    if (site > 0) {
      left[0] = most;
      matched(0);
    }
    left[0] -= STEP + ResultBounds.size(made, dataType());
    if (left[0] < 0) ResultBounds.refuse(most, place);
    return made;
  }

  /** Steps that patterns have taken since the outermost function began with its list. */
  static long matching() {
    return MATCHING.get()[0];
  }

  static void matched(long steps) {
    MATCHING.get()[0] = steps;
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode result) {
    return CodegenFallback.super.doGenCode(context, result);
  }

  @Override
  public DataType dataType() {
    return value.dataType();
  }

  @Override
  public boolean foldable() {
    return false; // it is counted for each element
  }

  @Override
  public boolean nullable() {
    return value.nullable();
  }

  @Override
  public Seq<Expression> children() {
    return CollectionConverters.asScala(List.of(value)).toSeq();
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new CountedSteps(children.apply(0), most, site, place);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof CountedSteps;
  }

  @Override
  public int productArity() {
    return 4;
  }

  @Override
  public Object productElement(int place) {
    return switch (place) {
      case 0 -> value;
      case 1 -> most;
      case 2 -> site;
      default -> this.place;
    };
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof CountedSteps that && value.equals(that.value) && most == that.most && site == that.site
        && place.equals(that.place);
  }

  @Override
  public int hashCode() {
    return 31 * (31 * value.hashCode() + Long.hashCode(most)) + site;
  }
}
