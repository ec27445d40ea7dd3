import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Properties;
import java.util.TreeSet;

/** Reads a properties file as Java does, and prints its names and values in hexadecimal digits. */
public final class PropertiesReader {
    public static void main(String[] arguments) throws IOException {
        Properties read = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(arguments[0]))) {
            read.load(file);
        }
        for (String name : new TreeSet<>(read.stringPropertyNames())) {
            System.out.println(hexadecimal(name) + "=" + hexadecimal(read.getProperty(name)));
        }
    }

    private static String hexadecimal(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
