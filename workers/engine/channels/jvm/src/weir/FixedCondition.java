package weir;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * The condition of a filter that the optimiser leaves where it stands: it is not deterministic, so nothing is pushed through
 * it, it is not combined with other filters, and it is evaluated as it is.
 */
abstract class FixedCondition extends Expression implements CodegenFallback, Serializable {
  @Override
  public boolean deterministic() {
    return false;
  }

  @Override
  public boolean foldable() {
    return false;
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public DataType dataType() {
    return DataTypes.BooleanType;
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    return CodegenFallback.super.doGenCode(context, code);
  }
}
