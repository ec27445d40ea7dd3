import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * The local file system as `watched:/...`. After every change it tells whoever listens on the port fs.watched.port, one line
 * a change, and waits for an answer. Only one change is under way at a time, so what the listener finds is what a process
 * that is killed there leaves behind.
 */
public class WatchedFileSystem extends RawLocalFileSystem {
  private static final URI NAME = URI.create("watched:///");
  private static final Object ONE_AT_A_TIME = new Object();
  private int port;

  @Override
  public void initialize(URI uri, Configuration configuration) throws IOException {
    super.initialize(uri, configuration);
    port = configuration.getInt("fs.watched.port", 0);
  }

  @Override
  public String getScheme() {
    return "watched";
  }

  @Override
  public URI getUri() {
    return NAME;
  }

  @Override
  public FSDataOutputStream create(
      Path path, boolean overwrite, int bufferSize, short replication, long blockSize, Progressable progress)
      throws IOException {
    return told(path, super.create(path, overwrite, bufferSize, replication, blockSize, progress));
  }

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    return told(path, super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress));
  }

  @Override
  public boolean rename(Path source, Path target) throws IOException {
    synchronized (ONE_AT_A_TIME) {
      boolean done = super.rename(source, target);
      tell("rename " + target);
      return done;
    }
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    synchronized (ONE_AT_A_TIME) {
      boolean done = super.delete(path, recursive);
      tell("delete " + path);
      return done;
    }
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    synchronized (ONE_AT_A_TIME) {
      boolean done = super.mkdirs(path, permission);
      tell("mkdirs " + path);
      return done;
    }
  }

  private FSDataOutputStream told(Path path, FSDataOutputStream out) throws IOException {
    return new FSDataOutputStream(new ToldOnClose(path, out), statistics);
  }

  private void tell(String change) throws IOException {
    if (port == 0) {
      return;
    }
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      OutputStream out = socket.getOutputStream();
      out.write((change + "\n").getBytes(StandardCharsets.UTF_8));
      out.flush();
      InputStream in = socket.getInputStream();
      if (in.read() < 0) {
        throw new IOException("nobody answered to: " + change);
      }
    }
  }

  private final class ToldOnClose extends FilterOutputStream {
    private final Path path;
    private boolean isOpen = true;

    ToldOnClose(Path path, OutputStream out) {
      super(out);
      this.path = path;
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      out.write(bytes, offset, length);
    }

    @Override
    public void close() throws IOException {
      if (!isOpen) {
        return;
      }
      isOpen = false;
      synchronized (ONE_AT_A_TIME) {
        super.close();
        tell("write " + path);
      }
    }
  }
}
