package weir;

import java.io.Serializable;
import java.util.List;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A pattern of a query, with the most steps that matching it may take: Java's matcher looks at a character in each, and
 * is given a text that counts them (see `select/matching.py`). What it gives is what Spark's own functions give.
 */
public final class BoundedPattern implements Serializable {
  // What begins with .* matches from the beginning of a line, or nowhere in that line: else a text that does not match is
  // looked through from each of its characters. In front may stand flags, and around it a group.
  private static final Pattern BEGINS_WITH_ANYTHING =
      Pattern.compile("(\\(\\?[a-zA-Z-]+\\))?((?:\\.\\*\\??|\\(\\.\\*\\??\\))(?![*+?{]).*)", Pattern.DOTALL);
  private static final String LINE_BEGINS = "(?<![^\\n\\r\\x85\\x{2028}\\x{2029}])";

  private final Pattern pattern;
  private final long most;
  private final boolean isShared; // by all elements of a list that functions work on
  private final String place;

  private BoundedPattern(Pattern pattern, long most, boolean isShared, String place) {
    this.pattern = pattern;
    this.most = most;
    this.isShared = isShared;
    this.place = place;
  }

  /**
   * Lets queries call weir_matches(text, pattern, …), weir_like(text, pattern, …), weir_split(text, pattern, …),
   * weir_replaced(text, pattern, by, …) and weir_extracted(text, pattern, group, …), with the most steps, whether
   * elements of a list share them, and the place, in the place of the dots.
   */
  static void register(FunctionRegistry registry) {
    register(registry, "matches", DataTypes.BooleanType);
    register(registry, "like", DataTypes.BooleanType);
    register(registry, "split", DataTypes.createArrayType(DataTypes.StringType, false));
    register(registry, "replaced", DataTypes.StringType);
    register(registry, "extracted", DataTypes.StringType);
  }

  private static void register(FunctionRegistry registry, String function, DataType gives) {
    registry.createOrReplaceTempFunction("weir_" + function, parts -> {
      Literal pattern = new Literal(of(function, parts), new ObjectType(BoundedPattern.class));
      Expression text = new Cast(parts.apply(0), DataTypes.StringType, Option.empty(), EvalMode.LEGACY()); // of NULL, too
      List<Expression> arguments = parts.length() == 6 ? List.of(text, pattern, parts.apply(2)) : List.of(text, pattern);
      return new StaticInvoke(
          BoundedPattern.class, gives, function, scala(arguments), scala(List.of()), true, false, true, Option.empty());
    }, "built-in");
  }

  private static <T> Seq<T> scala(List<T> parts) {
    return CollectionConverters.asScala(parts).toSeq();
  }

  private static BoundedPattern of(String function, Seq<Expression> parts) {
    String written = constant(parts.apply(1)).toString();
    int last = parts.length() - 1;
    return new BoundedPattern(
        Pattern.compile(switch (function) {
          case "like" -> ofLike(written);
          case "matches", "extracted" -> ofFirstMatch(written); // others look on behind it, within its line
          default -> written;
        }),
        ((Number) constant(parts.apply(last - 2))).longValue(), (Boolean) constant(parts.apply(last - 1)),
        constant(parts.apply(last)).toString());
  }

  private static Object constant(Expression part) {
    return part.eval(InternalRow.empty());
  }

  /** A pattern that first matches where this one does. */
  private static String ofFirstMatch(String written) {
    Matcher parts = BEGINS_WITH_ANYTHING.matcher(written);
    if (!parts.matches()) return written;
    return (parts.group(1) == null ? "" : parts.group(1)) + LINE_BEGINS + parts.group(2);
  }

  /** A pattern of LIKE in which each part between two % is looked for once, from where the one before it ends. */
  private static String ofLike(String like) {
    String[] parts = like.split("%", -1);
    StringBuilder pattern = new StringBuilder("(?s)").append(quoted(parts[0]));
    for (int place = 1; place < parts.length - 1; place++)
      if (!parts[place].isEmpty()) pattern.append("(?>.*?").append(quoted(parts[place])).append(')');
    if (parts.length > 1) pattern.append(".*").append(quoted(parts[parts.length - 1]));
    return pattern.toString();
  }

  private static String quoted(String part) {
    StringBuilder pattern = new StringBuilder();
    part.codePoints().forEach(code -> pattern.append(code == '_' ? "." : Pattern.quote(Character.toString(code))));
    return pattern.toString();
  }

  // By the types that Spark has for values while it computes; a null is not asked about.

  public static boolean matches(UTF8String text, BoundedPattern pattern) {
    return pattern.on(text, matcher -> matcher.find());
  }

  public static boolean like(UTF8String text, BoundedPattern pattern) {
    return pattern.on(text, Matcher::matches);
  }

  public static UTF8String extracted(UTF8String text, BoundedPattern pattern, int group) {
    String taken = pattern.on(text, matcher -> matcher.find() ? matcher.group(group) : null);
    return taken == null ? UTF8String.EMPTY_UTF8 : UTF8String.fromString(taken);
  }

  public static UTF8String replaced(UTF8String text, BoundedPattern pattern, UTF8String by) {
    return UTF8String.fromString(pattern.on(text, matcher -> matcher.replaceAll(by.toString())));
  }

  public static ArrayData split(UTF8String text, BoundedPattern pattern) {
    if (pattern.pattern.pattern().isEmpty()) return new GenericArrayData(text.split(UTF8String.EMPTY_UTF8, -1));
    String[] parts = pattern.within(text, counted -> pattern.pattern.split(counted, -1));
    Object[] texts = new Object[parts.length];
    for (int place = 0; place < parts.length; place++) texts[place] = UTF8String.fromString(parts[place]);
    return new GenericArrayData(texts);
  }

  private <T> T on(UTF8String text, Function<Matcher, T> work) {
    return within(text, counted -> work.apply(pattern.matcher(counted)));
  }

  private <T> T within(UTF8String text, Function<CountedText, T> work) {
    long before = isShared ? CountedSteps.matching() : 0;
    CountedText counted = new CountedText(text.toString(), most - before);
    try {
      return work.apply(counted);
    } catch (StackOverflowError deep) { // a group that is repeated is matched by a method that calls itself
      throw new ResultBounds.ResultTooLong(place + " repeats a group too often in one event, in a text of "
          + counted.length() + " characters. Repeat a class of characters ([ab]*) in the place of a group ((a|b)*), or"
          + " let it match less of the text (left, substring or a condition before it).");
    } catch (TooManySteps slow) {
      throw new ResultBounds.ResultTooLong(place + " takes more than " + most + " steps to match one event, in a text of "
          + counted.length() + " characters. Write the pattern so that fewer repetitions overlap ([^,]*, in the place of"
          + " .*,), begin it with ^, or let it match less of the text (left, substring or a condition before it).");
    } finally {
      if (isShared) CountedSteps.matched(before + counted.most - counted.left);
    }
  }

  /** Matching took more steps than it may; it is thrown from deep within, and so has no trace. */
  private static final class TooManySteps extends RuntimeException {
    private TooManySteps() {
      super(null, null, false, false);
    }
  }

  private static final class CountedText implements CharSequence {
    private final String text;
    private final long most;
    private long left;

    private CountedText(String text, long most) {
      this.text = text;
      this.most = most;
      this.left = most;
    }

    @Override
    public char charAt(int place) {
      if (--left < 0) throw new TooManySteps();
      return text.charAt(place);
    }

    @Override
    public int length() {
      return text.length();
    }

    @Override
    public CharSequence subSequence(int start, int end) {
      return text.substring(start, end);
    }

    @Override
    public String toString() {
      return text;
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof BoundedPattern that && pattern.pattern().equals(that.pattern.pattern()) && most == that.most
        && isShared == that.isShared && place.equals(that.place);
  }

  @Override
  public int hashCode() {
    return 31 * pattern.pattern().hashCode() + place.hashCode();
  }
}
