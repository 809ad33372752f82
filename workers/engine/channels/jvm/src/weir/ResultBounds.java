package weir;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeMapData;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Bounds of what a query's functions make of an event, as functions of the session (see `select/growing.py`). */
public final class ResultBounds {
  private static final String BOUNDED = "weir_bounded";
  private static final String COUNTED = "weir_counted";
  private static final int SLOT = 8; // bytes of an element of a list, or of a field

  private ResultBounds() {}

  /** An event of which a function makes more than it may, or takes more to match. */
  public static final class ResultTooLong extends RuntimeException {
    ResultTooLong(String message) {
      super(message);
    }
  }

  /** Lets the session's queries call weir_bounded(value, times, most, place) and weir_counted(value, most, site, place). */
  static void register(SparkSession session) {
    WrittenNumbers.register(session);
    if (session.sessionState().catalog().lookupBuiltinOrTempFunction(BOUNDED).isDefined()) return;
    FunctionRegistry registry = session.sessionState().functionRegistry();
    BoundedPattern.register(registry);
    register(registry, COUNTED, parts ->
        new CountedSteps(parts.apply(0), number(parts.apply(1)), (int) number(parts.apply(2)), text(parts.apply(3))));
    register(registry, BOUNDED, parts -> new StaticInvoke(
        ResultBounds.class, parts.apply(0).dataType(), "within", arguments(parts), scala(List.of()), true, true, true,
        Option.empty()));
  }

  private static void register(FunctionRegistry registry, String name, Function1<Seq<Expression>, Expression> builder) {
    registry.createOrReplaceTempFunction(name, builder, "built-in");
  }

  private static Seq<Expression> arguments(Seq<Expression> parts) {
    Expression value = parts.apply(0);
    return scala(List.of(
        value, new Literal(value.dataType(), new ObjectType(DataType.class)),
        new Cast(parts.apply(1), DataTypes.LongType, Option.empty(), EvalMode.LEGACY()),
        new Literal(number(parts.apply(2)), DataTypes.LongType), parts.apply(3)));
  }

  private static <T> Seq<T> scala(List<T> parts) {
    return CollectionConverters.asScala(parts).toSeq();
  }

  private static long number(Expression literal) {
    return ((Number) ((Literal) literal).value()).longValue();
  }

  private static String text(Expression literal) {
    return ((Literal) literal).value().toString();
  }

  static void refuse(long most, String place) {
    throw new ResultTooLong(place + " makes more than " + most + " bytes of one event. Let it work on less of the event"
        + " (left, substring or a condition before it), or let fewer functions of a query make texts and lists longer.");
  }

  /** About how many bytes a value takes, what it holds several times counted as often. */
  static long size(Object value, DataType type) {
    if (value == null) return 0;
    if (value instanceof UTF8String text) return text.numBytes();
    if (value instanceof UnsafeArrayData list) return list.getSizeInBytes();
    if (value instanceof UnsafeRow row) return row.getSizeInBytes();
    if (value instanceof UnsafeMapData map) return map.getSizeInBytes();
    if (value instanceof ArrayData list) return sizeOfList(list, ((ArrayType) type).elementType());
    if (value instanceof MapData map) {
      MapType types = (MapType) type;
      return sizeOfList(map.keyArray(), types.keyType()) + sizeOfList(map.valueArray(), types.valueType());
    }
    return value instanceof InternalRow row ? sizeOfRecord(row, (StructType) type) : SLOT;
  }

  private static long sizeOfList(ArrayData list, DataType element) {
    if (list instanceof UnsafeArrayData unsafe) return unsafe.getSizeInBytes();
    long size = (long) SLOT * list.numElements();
    if (UnsafeRow.isFixedLength(element)) return size;
    for (int place = 0; place < list.numElements(); place++)
      if (!list.isNullAt(place)) size += size(list.get(place, element), element);
    return size;
  }

  private static long sizeOfRecord(InternalRow row, StructType type) {
    long size = (long) SLOT * type.length();
    for (int place = 0; place < type.length(); place++) {
      DataType field = type.fields()[place].dataType();
      if (!UnsafeRow.isFixedLength(field) && !row.isNullAt(place)) size += size(row.get(place, field), field);
    }
    return size;
  }

  private static <T> T require(T value, DataType type, long times, long most, UTF8String place) {
    if (size(value, type) > most / Math.max(1, times)) refuse(most, place.toString());
    return value;
  }

  // By the types that Spark has for values while it computes; a null is not asked about.

  public static UTF8String within(UTF8String value, DataType type, long times, long most, UTF8String place) {
    return require(value, type, times, most, place);
  }

  public static ArrayData within(ArrayData value, DataType type, long times, long most, UTF8String place) {
    return require(value, type, times, most, place);
  }

  public static InternalRow within(InternalRow value, DataType type, long times, long most, UTF8String place) {
    return require(value, type, times, most, place);
  }

  public static MapData within(MapData value, DataType type, long times, long most, UTF8String place) {
    return require(value, type, times, most, place);
  }
}
