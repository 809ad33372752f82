#!lua flags=allow-oom
-- In front of every script that frees blocks, which also runs while the broker's memory is full: else nobody could make
-- room. So nobody may store much by one of them.
for i = 1, #ARGV do
  if #ARGV[i] > 1000 then return redis.error_reply('WEIRLONG an argument of ' .. #ARGV[i] .. ' bytes') end
end

