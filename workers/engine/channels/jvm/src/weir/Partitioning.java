package weir;

import java.util.List;

/** How a stream is divided among the parts of one reader; what a change of a route asks for. {@link Quota} is one way. */
interface Partitioning {
  /** The channels of the parts that get events. */
  List<String> parts();

  /** Deals out the events of one batch: of a repeated batch as before. */
  Partitioner partitioner(long batch);

  /** Which part each event of a batch goes to, in their order. */
  interface Partitioner {
    int next();
  }
}
