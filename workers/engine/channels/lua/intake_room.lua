-- The reason why a live source's channel takes no more blocks, '' where it does.
-- KEYS: stream, meta, readers   ARGV: most bytes that should wait there
return why_full(KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1]))
