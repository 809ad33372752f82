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
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * One connection to the broker, speaking RESP2. Replies are Long, String for a status, byte[] for a bulk string,
 * List for an array, null, or a {@link Refusal} where the broker answered with an error. Not thread-safe; see
 * {@link Broker} for connections shared in a JVM.
 */
final class Redis implements Closeable {
  private static final int CONNECT_TIMEOUT_MS = 3_000;
  private static final int READ_TIMEOUT_MS = 10_000;

  /** An error reply: the command was understood and refused, so repeating it is no use. */
  static final class Refusal extends RuntimeException {
    Refusal(String message) {
      super(message);
    }
  }

  private final Socket socket;
  private final InputStream in;
  private final OutputStream out;

  /** Connects to redis://[user:password@]host[:port][/db], or rediss:// for TLS. */
  Redis(String url) throws IOException {
    URI uri = URI.create(url);
    boolean tls = "rediss".equals(uri.getScheme());
    int port = uri.getPort() < 0 ? 6379 : uri.getPort();
    Socket plain = new Socket();
    try {
      plain.connect(new InetSocketAddress(uri.getHost(), port), CONNECT_TIMEOUT_MS);
      plain.setTcpNoDelay(true);
      plain.setSoTimeout(READ_TIMEOUT_MS);
      socket = tls ? secure(plain, uri.getHost(), port) : plain;
      in = new BufferedInputStream(socket.getInputStream(), 1 << 16);
      out = new BufferedOutputStream(socket.getOutputStream(), 1 << 16);
      greet(uri);
    } catch (IOException | RuntimeException failure) {
      plain.close();
      throw failure;
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
      call(name.isEmpty() ? new Object[] {"AUTH", password} : new Object[] {"AUTH", name, password});
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
    for (Object[] command : commands) send(command);
    flush();
    List<Object> replies = new ArrayList<>(commands.size());
    for (int i = 0; i < commands.size(); i++) replies.add(receive());
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
      case '-': return new Refusal(line());
      case ':': return Long.parseLong(line());
      case '$': return bulk(Integer.parseInt(line()));
      case '*': return array(Integer.parseInt(line()));
      case -1: throw new EOFException("the broker closed the connection");
      default: throw new IOException("not a reply of a Redis server: " + (char) kind);
    }
  }

  private byte[] bulk(int length) throws IOException {
    if (length < 0) return null;
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
