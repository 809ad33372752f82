package weir;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Leaves of each union of alternates the one that is on, when a batch is planned (docs/dynamic.md). Spark itself keeps what
 * a constant false leaves of a stream, for there might be state below; of alternates there is none, and what is before them
 * is before the one that stays, too. Where others work beside it, the union of them stays. What several branches read is
 * planned once ({@link Tee}).
 */
public final class OneAlternate extends Rule<LogicalPlan> {
  private static final OneAlternate RULE = new OneAlternate();

  /** Lets a session, and those of its queries that start from now on, plan so. */
  static void plansIn(SparkSession session) {
    Seq<Rule<LogicalPlan>> rules = ((org.apache.spark.sql.classic.SparkSession) session).experimental().extraOptimizations();
    if (rules.contains(RULE)) return;
    List<Rule<LogicalPlan>> more = new ArrayList<>(CollectionConverters.asJava(rules));
    more.add(RULE);
    ((org.apache.spark.sql.classic.SparkSession) session).experimental()
        .extraOptimizations_$eq(CollectionConverters.asScala(more).toSeq());
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan.exists(OneAlternate::isOfAlternates)) beginBatch(plan);
    return Tee.readOnce((LogicalPlan) plan.transformUp(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan node) {
        return isOfAlternates(node);
      }

      @Override
      public LogicalPlan apply(LogicalPlan node) {
        return theOneOn((Union) node);
      }
    }));
  }

  private static boolean isOfAlternates(LogicalPlan node) {
    return node instanceof Union && hasAlternates((Union) node);
  }

  /** Which alternate is on may follow from what the batch reads. */
  private static void beginBatch(LogicalPlan plan) {
    for (LogicalPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      if (!(leaf instanceof StreamingDataSourceV2ScanRelation)) continue;
      StreamingDataSourceV2ScanRelation read = (StreamingDataSourceV2ScanRelation) leaf;
      boolean isCarrier = read.stream() instanceof Waves.Carrier && read.startOffset().isDefined() && read.endOffset().isDefined();
      if (isCarrier) Waves.begin((Waves.Carrier) read.stream(), read.startOffset().get(), read.endOffset().get());
    }
  }

  private static boolean hasAlternates(Union union) {
    return CollectionConverters.asJava(union.children()).stream().anyMatch(child -> alternate(child) != null);
  }

  private static LogicalPlan theOneOn(Union union) {
    List<LogicalPlan> stays = new ArrayList<>();
    int on = 0;
    boolean mayBeMore = false;
    for (LogicalPlan child : CollectionConverters.asJava(union.children())) {
      Alternate alternate = alternate(child);
      if (alternate != null) mayBeMore = alternate.mayBeBeside();
      if (alternate != null && !alternate.isOn()) continue;
      if (alternate != null) on++;
      stays.add(withoutMark(child)); // what is no alternate's is in each batch: Spark makes one union of unions
    }
    if (on == 0 || on > 1 && !mayBeMore) throw new IllegalStateException("of the alternates " + on + " are on, not 1");
    if (stays.size() == 1) return namedAs(stays.get(0), union);
    // With new children a union would have to have as many as before.
    return namedAs(new Union(CollectionConverters.asScala(stays).toSeq(), union.byName(), union.allowMissingCol()), union);
  }

  /** What marks a child of a union as an alternate: nothing but projections is above it. */
  private static Alternate alternate(LogicalPlan child) {
    if (child instanceof Filter && ((Filter) child).condition() instanceof Alternate) return (Alternate) ((Filter) child).condition();
    return child instanceof Project ? alternate(((Project) child).child()) : null;
  }

  private static LogicalPlan withoutMark(LogicalPlan child) {
    if (child instanceof Project) {
      return new Project(((Project) child).projectList(), withoutMark(((Project) child).child()));
    }
    return alternate(child) == null ? child : ((Filter) child).child();
  }

  /** A plan with the columns of the union that it was in, for those behind it. */
  private static LogicalPlan namedAs(LogicalPlan plan, Union union) {
    List<Attribute> own = CollectionConverters.asJava(plan.output()), others = CollectionConverters.asJava(union.output());
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < own.size(); i++) {
      Attribute column = others.get(i);
      if (own.get(i).exprId().equals(column.exprId())) columns.add(own.get(i));
      else {
        columns.add(new Alias(
            own.get(i), column.name(), column.exprId(), column.qualifier(), Option.apply(column.metadata()),
            CollectionConverters.asScala(List.<String>of()).toSeq()));
      }
    }
    return new Project(CollectionConverters.asScala(columns).toSeq(), plan);
  }
}
