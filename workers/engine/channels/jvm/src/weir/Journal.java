package weir;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/**
 * What an open batch has read so far: a line for each group of events, the offset at its end. A group is written here
 * before its events go on, and published as blocks of its own. So a batch that is repeated after a kill, for which Spark
 * knows nothing but where it began, reads the same groups first and makes the same blocks.
 */
final class Journal {
  private final FileOutputStream file;
  private final Iterator<String> written;

  /** Where the journals of a source are, of which Spark says where its part of the checkpoint is. */
  static String folder(String checkpoint) {
    return new org.apache.hadoop.fs.Path(checkpoint, "journal").toUri().getPath();
  }

  /** That of a batch. Those of others are deleted: what is before it is done, and none is begun before it is. */
  Journal(String folder, long batch) throws IOException {
    File directory = new File(folder);
    Files.createDirectories(directory.toPath());
    File[] others = directory.listFiles((parent, name) -> !name.equals(Long.toString(batch)));
    if (others != null) for (File other : others) Files.deleteIfExists(other.toPath());
    File own = new File(directory, Long.toString(batch));
    written = whole(own).iterator();
    file = new FileOutputStream(own, true);
  }

  /** Its lines; one that was being written when its driver was killed is cut off, for nothing has come of it. */
  private static List<String> whole(File own) throws IOException {
    if (!own.exists()) return List.of();
    byte[] bytes = Files.readAllBytes(own.toPath());
    List<String> lines = new ArrayList<>();
    int begin = 0;
    for (int i = 0; i < bytes.length; i++) {
      if (bytes[i] != '\n') continue;
      lines.add(new String(bytes, begin, i - begin, StandardCharsets.UTF_8));
      begin = i + 1;
    }
    if (begin < bytes.length) Files.write(own.toPath(), java.util.Arrays.copyOf(bytes, begin), StandardOpenOption.TRUNCATE_EXISTING);
    return lines;
  }

  /** The end of the next group that the batch had read before it was repeated; null behind the last. */
  String next() {
    return written.hasNext() ? written.next() : null;
  }

  /** Notes the end of a group. */
  void add(String offset) throws IOException {
    file.write((offset + '\n').getBytes(StandardCharsets.UTF_8)); // at once: the process may be killed right after
  }

  void close() throws IOException {
    file.close();
  }
}
