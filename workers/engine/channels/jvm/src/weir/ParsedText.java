package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.MultiAlias;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/** What Spark's parser makes of texts of expressions: their nodes, each with the names in it. Nothing is evaluated. */
public final class ParsedText {
  private static final int MOST_NODES = 100_000;

  private ParsedText() {}

  /** The nodes of all texts (a list in JSON), as JSON: of each the class, and the parts of the name that it has. */
  public static String nodes(SparkSession session, String texts) throws JsonProcessingException, ParseException {
    ResultBounds.register(session); // what is read here is what runs next, and calls them
    List<List<String>> nodes = new ArrayList<>();
    Deque<Expression> open = new ArrayDeque<>();
    ObjectMapper json = new ObjectMapper();
    for (String text : json.readValue(texts, String[].class)) open.push(session.sessionState().sqlParser().parseExpression(text));
    while (!open.isEmpty()) {
      Expression node = open.pop();
      if (nodes.size() == MOST_NODES) throw new IllegalArgumentException("The expressions have too many parts.");
      List<String> described = new ArrayList<>();
      described.add(node.getClass().getName());
      described.addAll(names(node));
      nodes.add(described);
      CollectionConverters.asJava(node.children()).forEach(open::push);
    }
    return json.writeValueAsString(nodes);
  }

  private static List<String> names(Expression node) {
    if (node instanceof UnresolvedAttribute column) return CollectionConverters.asJava(column.nameParts());
    if (node instanceof UnresolvedFunction function) return CollectionConverters.asJava(function.nameParts());
    if (node instanceof UnresolvedNamedLambdaVariable variable) return CollectionConverters.asJava(variable.nameParts());
    if (node instanceof LambdaFunction function) return variables(function);
    if (node instanceof Alias alias) return List.of(alias.name());
    if (node instanceof MultiAlias aliases) return CollectionConverters.asJava(aliases.names());
    return List.of();
  }

  /** What a function calls what it is given: within it, Spark's parser takes every name for one of these. */
  private static List<String> variables(LambdaFunction function) {
    List<String> names = new ArrayList<>();
    CollectionConverters.asJava(function.arguments()).forEach(argument -> names.add(argument.name()));
    return names;
  }
}
