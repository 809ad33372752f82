package weir;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketOption;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import jdk.net.ExtendedSocketOptions;

/**
 * One connection to the broker, speaking RESP2. Replies are Long, String for a status, byte[] for a bulk string,
 * List for an array, null, or a {@link Refusal} where the broker answered with an error. Not thread-safe; see
 * {@link Broker} for connections shared in a JVM.
 */
final class Redis implements Closeable {
  /** In the place of what a reply had no room for. */
  static final byte[] LEFT_OUT = new byte[0];
  private static final int SHORT = 1 << 16; // of what is as long in bytes, or shorter, there is always room

  private static final int CONNECT_TIMEOUT_MS = 3_000;
  private static final int READ_TIMEOUT_MS = 10_000;

  /** An error reply: the command was understood and refused, so repeating it is no use. */
  static final class Refusal extends RuntimeException {
    Refusal(String message) {
      super(message);
    }
  }

  /** The broker's memory is full: it takes no more until others have freed some, however long that takes. */
  static final class Full extends IOException {
    Full(String message) {
      super(message);
    }
  }

  // Of a server that is no primary, or not yet, or takes nothing without its replicas: it is as good as away.
  private static final List<String> AWAY = List.of("READONLY", "NOREPLICAS", "LOADING", "MASTERDOWN", "UNBLOCKED");
  private static final Pattern SENTINELS = Pattern.compile("redis\\+sentinel://(?:([^@/]*)@)?([^@/?#]+)/([A-Za-z0-9._-]+)(?:/(\\d+))?/?");
  private static final int REPLICAS_ASKED_MS = 200; // whether a replica that does not answer is still online

  private final Socket socket;
  private long room = Long.MAX_VALUE; // in bytes: for what is long in the replies that are read now
  private long share = Long.MAX_VALUE; // of it for this reply
  private boolean hasLong; // of this reply something long was kept
  private final InputStream in;
  private final OutputStream out;
  private final boolean hasReplicas;

  /**
   * Connects to redis://[user:password@]host[:port][/db], or rediss:// for TLS; or to the primary that sentinels name, at
   * redis+sentinel://[user:password@]host:port,host:port/service[/db] ({@code workers/broker_address.py}).
   */
  Redis(String url) throws IOException {
    Matcher service = SENTINELS.matcher(url);
    hasReplicas = service.matches();
    URI uri = URI.create(hasReplicas ? primary(service) : url);
    boolean tls = "rediss".equals(uri.getScheme());
    int port = uri.getPort() < 0 ? 6379 : uri.getPort();
    Socket plain = new Socket();
    try {
      plain.connect(new InetSocketAddress(uri.getHost(), port), CONNECT_TIMEOUT_MS);
      plain.setTcpNoDelay(true);
      plain.setSoTimeout(READ_TIMEOUT_MS);
      keepAlive(plain);
      socket = tls ? secure(plain, uri.getHost(), port) : plain;
      in = new BufferedInputStream(socket.getInputStream(), 1 << 16);
      out = new BufferedOutputStream(socket.getOutputStream(), 1 << 16);
      greet(uri);
    } catch (IOException | RuntimeException failure) {
      plain.close();
      throw failure;
    }
  }

  /** Whether an address is of sentinels. */
  static boolean namesSentinels(String url) {
    return SENTINELS.matcher(url).matches();
  }

  /** The address of the primary of a service: the first sentinel that answers knows it. */
  private static String primary(Matcher service) throws IOException {
    IOException away = new IOException("no sentinel knows a primary of " + service.group(3));
    String login = service.group(1) == null ? "" : service.group(1) + "@";
    String db = service.group(4) == null ? "0" : service.group(4);
    for (String host : service.group(2).split(",")) {
      try (Redis sentinel = new Redis("redis://" + host.replaceFirst("^([^:]+|\\[.*\\])$", "$1:26379"))) {
        List<?> found = (List<?>) sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service.group(3));
        if (found == null) continue;
        String ip = text(found.get(0));
        return "redis://" + login + (ip.contains(":") ? "[" + ip + "]" : ip) + ":" + text(found.get(1)) + "/" + db;
      } catch (IOException | Refusal failed) {
        away.addSuppressed(failed);
      }
    }
    throw away;
  }

  /** The kernel ends a connection to a machine that died in silence: a subscriber would wait for it forever. */
  private static void keepAlive(Socket socket) throws IOException {
    socket.setKeepAlive(true);
    Map<SocketOption<Integer>, Integer> seconds = Map.of(
        ExtendedSocketOptions.TCP_KEEPIDLE, 5, ExtendedSocketOptions.TCP_KEEPINTERVAL, 2, ExtendedSocketOptions.TCP_KEEPCOUNT, 3);
    for (var option : seconds.entrySet()) {
      if (socket.supportedOptions().contains(option.getKey())) socket.setOption(option.getKey(), option.getValue());
    }
  }

  /**
   * Waits until every replica online has what was written on this connection, so that it is there whichever is promoted. A
   * primary without replicas writes alone, unless its {@code min-replicas-to-write} forbids it.
   */
  void awaitReplicas() throws IOException {
    if (!hasReplicas) return;
    long deadline = System.nanoTime() + READ_TIMEOUT_MS * 1_000_000L;
    while (true) {
      List<?> role = (List<?>) call("ROLE");
      if (!"master".equals(text(role.get(0)))) throw new IOException("the broker is a replica now");
      int online = ((List<?>) role.get(2)).size();
      if (online == 0 || (Long) call("WAIT", online, REPLICAS_ASKED_MS) >= online) return;
      if (System.nanoTime() > deadline) throw new IOException("a replica of the broker does not take what is written");
    }
  }

  private static Socket secure(Socket plain, String host, int port) throws IOException {
    SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
    SSLSocket secured = (SSLSocket) factory.createSocket(plain, host, port, true);
    var parameters = secured.getSSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    secured.setSSLParameters(parameters);
    secured.startHandshake();
    return secured;
  }

  private void greet(URI uri) throws IOException {
    String user = uri.getRawUserInfo();
    if (user != null && !user.isEmpty()) {
      int colon = user.indexOf(':');
      String name = decode(colon < 0 ? "" : user.substring(0, colon));
      String password = decode(user.substring(colon + 1));
      try {
        call(name.isEmpty() ? new Object[] {"AUTH", password} : new Object[] {"AUTH", name, password});
      } catch (Refusal unknown) { // a server that was just promoted knows the users of nodes when their agents have made them
        throw new IOException("the broker lets this user not in: " + unknown.getMessage(), unknown);
      }
    }
    String path = uri.getPath() == null ? "" : uri.getPath().replace("/", "");
    if (!path.isEmpty() && !path.equals("0")) call("SELECT", path);
  }

  private static String decode(String text) {
    return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
  }

  /** Sends one command and returns its reply; an error reply is thrown. */
  Object call(Object... command) throws IOException {
    send(command);
    flush();
    return checked(receive());
  }

  /** Sends all commands at once and returns their replies, refusals among them. */
  List<Object> pipeline(List<Object[]> commands) throws IOException {
    return pipeline(commands, Long.MAX_VALUE, 1);
  }

  /**
   * The same, and of what may be long keeps so many bytes in all, in even shares for so many of the replies; but of each
   * reply the first, whatever its length, as long as there is any room. What is beyond is read and is {@link #LEFT_OUT}.
   */
  List<Object> pipeline(List<Object[]> commands, long mostBytes, int shares) throws IOException {
    for (Object[] command : commands) send(command);
    flush();
    List<Object> replies = new ArrayList<>(commands.size());
    room = mostBytes;
    try {
      for (int i = 0; i < commands.size(); i++) {
        share = mostBytes / shares;
        hasLong = false;
        replies.add(receive());
      }
    } finally {
      room = share = Long.MAX_VALUE;
    }
    return replies;
  }

  static Object checked(Object reply) {
    if (reply instanceof Refusal) throw (Refusal) reply;
    return reply;
  }

  static String text(Object bulk) {
    return bulk == null ? null : bulk instanceof byte[] ? new String((byte[]) bulk, StandardCharsets.UTF_8) : bulk.toString();
  }

  void send(Object... command) throws IOException {
    writeHeader('*', command.length);
    for (Object part : command) {
      byte[] bytes = part instanceof byte[] ? (byte[]) part : part.toString().getBytes(StandardCharsets.UTF_8);
      writeHeader('$', bytes.length);
      out.write(bytes);
      out.write('\r');
      out.write('\n');
    }
  }

  void flush() throws IOException {
    out.flush();
  }

  /** Waits for a reply without a time limit: a subscriber's connection may be silent for hours. */
  void waitForever() throws IOException {
    socket.setSoTimeout(0);
  }

  Object receive() throws IOException {
    int kind = in.read();
    switch (kind) {
      case '+': return line();
      case '-': return refusal(line());
      case ':': return Long.parseLong(line());
      case '$': return bulk(Integer.parseInt(line()));
      case '*': return array(Integer.parseInt(line()));
      case -1: throw new EOFException("the broker closed the connection");
      default: throw new IOException("not a reply of a Redis server: " + (char) kind);
    }
  }

  private static Refusal refusal(String message) throws IOException {
    if (message.startsWith("OOM ")) throw new Full(message);
    if (AWAY.contains(message.split(" ", 2)[0])) throw new IOException(message);
    return new Refusal(message);
  }

  private byte[] bulk(int length) throws IOException {
    if (length < 0) return null;
    if (length > SHORT) {
      if (length > share && (hasLong || room <= 0)) {
        in.skipNBytes(length + 2L);
        share = 0; // what follows would have a gap before it
        return LEFT_OUT;
      }
      hasLong = true;
      share -= length;
      room -= length;
    }
    byte[] bytes = in.readNBytes(length);
    if (bytes.length < length || in.read() < 0 || in.read() < 0) throw new EOFException("reply cut short");
    return bytes;
  }

  private List<Object> array(int length) throws IOException {
    if (length < 0) return null;
    List<Object> items = new ArrayList<>(length);
    for (int i = 0; i < length; i++) items.add(receive());
    return items;
  }

  private String line() throws IOException {
    StringBuilder text = new StringBuilder(32);
    for (int c = in.read(); c != '\r'; c = in.read()) {
      if (c < 0) throw new EOFException("reply cut short");
      text.append((char) c);
    }
    in.read();
    return text.toString();
  }

  private void writeHeader(char kind, int number) throws IOException {
    out.write(kind);
    out.write(Integer.toString(number).getBytes(StandardCharsets.US_ASCII));
    out.write('\r');
    out.write('\n');
  }

  @Override
  public void close() {
    try {
      socket.close();
    } catch (IOException ignored) {
      // Nothing is left to do for a connection that cannot even be closed.
    }
  }
}
