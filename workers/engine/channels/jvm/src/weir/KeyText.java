package weir;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Hex;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** The key of an event as one text: what folds make of the same columns ({@code key_text} of the library's states). */
final class KeyText {
  private static final UTF8String BETWEEN = UTF8String.fromString("\u001f");
  private static final UTF8String NULL = UTF8String.fromString("\u0000");
  private static final UTF8String[][] ESCAPES = {
    escape("\u001b", "e"), escape("\u001f", "u"), escape("\u0000", "0")
  };

  private final Expression[] values;
  private final boolean[] isText;

  KeyText(List<String> columns, StructType schema) {
    values = new Expression[columns.size()];
    isText = new boolean[columns.size()];
    for (int i = 0; i < values.length; i++) {
      if (schema.getFieldIndex(columns.get(i)).isEmpty()) {
        throw new IllegalStateException("a stream is to be divided by " + columns.get(i) + ", which it has not: its columns are "
            + String.join(", ", schema.fieldNames()));
      }
      int ordinal = schema.fieldIndex(columns.get(i));
      DataType type = schema.apply(ordinal).dataType();
      isText[i] = type instanceof StringType;
      values[i] = text(new BoundReference(ordinal, type, true), type);
    }
  }

  private static UTF8String[] escape(String character, String letter) {
    return new UTF8String[] {UTF8String.fromString(character), UTF8String.fromString("\u001b" + letter)};
  }

  private static Expression text(Expression column, DataType type) {
    if (type instanceof StringType) return column;
    if (type instanceof BinaryType) return new Hex(column);
    Option<String> zone = Option.apply(SQLConf.get().sessionLocalTimeZone());
    boolean isDouble = type instanceof DoubleType || type instanceof FloatType;
    // A float is compared as the double that it is, and of zeros and of NaN there is one.
    Expression value = isDouble ? new NormalizeNaNAndZero(new Cast(column, DataTypes.DoubleType, zone)) : column;
    return new Cast(value, DataTypes.StringType, zone);
  }

  UTF8String of(InternalRow event) {
    UTF8String[] texts = new UTF8String[values.length];
    for (int i = 0; i < values.length; i++) {
      UTF8String text = (UTF8String) values[i].eval(event);
      texts[i] = text == null ? NULL : isText[i] ? escaped(text) : text;
    }
    return texts.length == 1 ? texts[0] : UTF8String.concatWs(BETWEEN, texts);
  }

  private static UTF8String escaped(UTF8String text) {
    for (UTF8String[] escape : ESCAPES) text = text.replace(escape[0], escape[1]);
    return text;
  }
}
