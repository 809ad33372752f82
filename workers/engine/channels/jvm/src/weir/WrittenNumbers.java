package weir;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetJsonObject;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Numbers by their text where Spark would change them: its reader of JSON makes a double of each number that becomes a
 * text, and all of its readers round to a decimal's places.
 */
public final class WrittenNumbers {
  private static final String DECIMAL = "weir_decimal";
  private static final String MARK = "\uE000"; // for private use: of no text
  private static final int LONGEST = 1_000; // characters of a number, as of one in Spark's JSON
  private static final List<String> MARKS = List.of(MARK, "\\ue000", "\\uE000");
  private static final JsonFactory JSON = new JSONOptions(Map$.MODULE$.<String, String>empty(), "UTC", "").buildJsonFactory();

  private WrittenNumbers() {}

  /**
   * Lets the session's queries call weir_kept(text, type) within from_json, weir_json_object(text, path) in the place of
   * get_json_object, and weir_decimal(text, precision, scale).
   */
  public static void register(SparkSession session) {
    if (session.sessionState().catalog().lookupBuiltinOrTempFunction(DECIMAL).isDefined()) return;
    FunctionRegistry registry = session.sessionState().functionRegistry();
    registry.createOrReplaceTempFunction("weir_kept", parts -> call(
        "kept", DataTypes.StringType, parts.apply(0),
        new Literal(DataType.fromDDL(((Literal) parts.apply(1)).value().toString()), new ObjectType(DataType.class))),
        "built-in");
    registry.createOrReplaceTempFunction("weir_json_object", parts -> call(
        "unmarked", DataTypes.StringType,
        new GetJsonObject(call("marked", DataTypes.StringType, parts.apply(0)), parts.apply(1)), parts.apply(0)),
        "built-in");
    registry.createOrReplaceTempFunction(DECIMAL, parts -> call(
        "decimal", new DecimalType(number(parts.apply(1)), number(parts.apply(2))),
        parts.apply(0), parts.apply(1), parts.apply(2)), "built-in");
  }

  private static Expression call(String function, DataType gives, Expression... arguments) {
    return new StaticInvoke(
        WrittenNumbers.class, gives, function, CollectionConverters.asScala(List.of(arguments)).toSeq(),
        CollectionConverters.asScala(List.<org.apache.spark.sql.types.AbstractDataType>of()).toSeq(), true, true, true,
        Option.empty());
  }

  private static int number(Expression literal) {
    return ((Number) ((Literal) literal).value()).intValue();
  }

  /**
   * A document of which from_json gives the same values, but where the type has a text the text of what came, and where it
   * has a decimal nothing that would be rounded. What is no JSON stays as it is.
   */
  public static UTF8String kept(UTF8String document, DataType type) {
    boolean hasDecimals = type.existsRecursively(inner -> inner instanceof DecimalType);
    if (!hasDecimals && !hasWrittenNumbers(document)) return document;
    try (JsonParser parser = JSON.createParser(document.toString())) {
      if (parser.nextToken() == null || !isChanged(parser, type)) return document;
    } catch (IOException unreadable) {
      return document;
    }
    return rewritten(document, type, false);
  }

  /** A document with its numbers as marked texts, so that get_json_object passes them on as they came. */
  public static UTF8String marked(UTF8String document) {
    return hasMarks(document) || !hasWrittenNumbers(document) ? document : rewritten(document, null, true);
  }

  /** What get_json_object took out of that document once it was marked. */
  public static UTF8String unmarked(UTF8String taken, UTF8String document) {
    if (hasMarks(document)) return taken;
    return UTF8String.fromString(taken.toString().replace('"' + MARK, "").replace(MARK + '"', "").replace(MARK, ""));
  }

  /** Whether a document has the mark itself, as it is or escaped: its numbers are read as Spark reads them. */
  private static boolean hasMarks(UTF8String document) {
    for (String mark : MARKS) if (document.contains(UTF8String.fromString(mark))) return true;
    return false;
  }

  /** A decimal that is just what a text says; null for what has more digits, or is no number. */
  public static Decimal decimal(UTF8String text, int precision, int scale) {
    BigDecimal exact = exact(text.toString(), precision, scale);
    return exact == null ? null : Decimal.apply(exact, precision, scale);
  }

  private static BigDecimal exact(String text, int precision, int scale) {
    if (text.length() > LONGEST) return null; // Java takes a minute to read a million digits
    try {
      BigDecimal number = new BigDecimal(text.strip().replace(",", "")); // as Spark reads it
      // Before digits are written out: an exponent of a million would make as many.
      if (number.signum() != 0 && (long) number.precision() - number.scale() > precision - scale) return null;
      number = number.signum() == 0 ? BigDecimal.ZERO : number.stripTrailingZeros();
      return number.scale() > scale ? null : number.setScale(scale, RoundingMode.UNNECESSARY);
    } catch (ArithmeticException | NumberFormatException impossible) {
      return null;
    }
  }

  /** Whether a number may stand outside of quotes that a double would write otherwise. */
  private static boolean hasWrittenNumbers(UTF8String document) {
    boolean isQuoted = false;
    byte before = 0;
    for (int place = 0, count = document.numBytes(); place < count; place++) {
      byte here = document.getByte(place);
      if (isQuoted && here == '\\') place++;
      else if (here == '"') isQuoted = !isQuoted;
      else if (!isQuoted && (here == '.' || here == '\'' || here == 'N' || here == 'I' || before == '-' && here == '0'
          || (here == 'e' || here == 'E') && before >= '0' && before <= '9')) return true;
      before = here;
    }
    return false;
  }

  /** Whether Spark's reader changes a number of a value: one that becomes a text, or is within one, or a decimal. */
  private static boolean isChanged(JsonParser parser, DataType type) throws IOException {
    JsonToken token = parser.currentToken();
    if (type == null) {
      parser.skipChildren();
      return false;
    }
    if (token == JsonToken.START_OBJECT) {
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        DataType inner = type instanceof StringType ? type : inside(type, parser.currentName());
        parser.nextToken();
        if (isChanged(parser, inner)) return true;
      }
      return false;
    }
    if (token == JsonToken.START_ARRAY) {
      DataType element = type instanceof ArrayType list ? list.elementType() : type;
      while (parser.nextToken() != JsonToken.END_ARRAY) if (isChanged(parser, element)) return true;
      return false;
    }
    if (type instanceof StringType)
      return token == JsonToken.VALUE_NUMBER_FLOAT || token.isNumeric() && parser.getText().equals("-0");
    return type instanceof DecimalType digits && (token.isNumeric() || token == JsonToken.VALUE_STRING)
        && exact(parser.getText(), digits.precision(), digits.scale()) == null;
  }

  private static UTF8String rewritten(UTF8String document, DataType type, boolean marks) {
    StringWriter text = new StringWriter(document.numBytes() + 16);
    try (JsonParser parser = JSON.createParser(document.toString()); JsonGenerator copy = JSON.createGenerator(text)) {
      if (parser.nextToken() == null) return document;
      copy(parser, copy, type, marks);
    } catch (IOException unreadable) {
      return document;
    }
    return UTF8String.fromString(text.toString());
  }

  private static void copy(JsonParser parser, JsonGenerator copy, DataType type, boolean marks) throws IOException {
    JsonToken token = parser.currentToken();
    if (type instanceof StringType && token != JsonToken.VALUE_STRING && token != JsonToken.VALUE_NULL) {
      StringWriter text = new StringWriter();
      try (JsonGenerator inner = JSON.createGenerator(text)) {
        copy(parser, inner, null, false);
      }
      copy.writeString(text.toString());
    } else if (token == JsonToken.START_OBJECT) {
      copy.writeStartObject();
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        String name = parser.currentName();
        copy.writeFieldName(name);
        parser.nextToken();
        copy(parser, copy, inside(type, name), marks);
      }
      copy.writeEndObject();
    } else if (token == JsonToken.START_ARRAY) {
      copy.writeStartArray();
      DataType element = type instanceof ArrayType list ? list.elementType() : type;
      while (parser.nextToken() != JsonToken.END_ARRAY) copy(parser, copy, element, marks);
      copy.writeEndArray();
    } else if (token.isNumeric()) {
      String number = parser.getText();
      if (marks && Character.isDigit(number.charAt(number.length() - 1))) copy.writeString(MARK + number + MARK); // no NaN
      else if (type instanceof DecimalType digits && exact(number, digits.precision(), digits.scale()) == null)
        copy.writeNull();
      else copy.writeNumber(number);
    } else if (type instanceof DecimalType digits && token == JsonToken.VALUE_STRING
        && exact(parser.getText(), digits.precision(), digits.scale()) == null) {
      copy.writeNull();
    } else {
      copy.copyCurrentEvent(parser);
    }
  }

  private static DataType inside(DataType type, String name) {
    DataType record = type instanceof ArrayType list ? list.elementType() : type; // an object is read as a list of one
    if (record instanceof MapType map) return map.valueType();
    if (!(record instanceof StructType struct)) return null;
    scala.Option<Object> place = struct.getFieldIndex(name);
    return place.isEmpty() ? null : struct.fields()[(int) place.get()].dataType();
  }
}
