"""Which alternates, cores and machines: all algorithms by one set of invariants, and each by references of its own."""
