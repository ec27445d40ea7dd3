import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Writes and reads messages with Kafka's own classes. A line is "write NAME VERSION JSON" or "read NAME VERSION HEX", NAME being
 * LeaderAndIsrRequest and the like; each is answered by a line, with the bytes or with the fields.
 */
public final class Messages {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 4);
            Class<?> data = Class.forName("org.apache.kafka.common.message." + words[1] + "Data");
            Class<?> converter = Class.forName(data.getName() + "JsonConverter");
            short version = Short.parseShort(words[2]);
            if (words[0].equals("write")) {
                Message message = (Message) converter.getMethod("read", JsonNode.class, short.class)
                    .invoke(null, MAPPER.readTree(words[3]), version);
                ObjectSerializationCache sizes = new ObjectSerializationCache();
                ByteBuffer bytes = ByteBuffer.allocate(message.size(sizes, version));
                message.write(new ByteBufferAccessor(bytes), sizes, version);
                answers.println(HexFormat.of().formatHex(bytes.array()));
            } else {
                ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
                Message message = (Message) data.getDeclaredConstructor().newInstance();
                message.read(new ByteBufferAccessor(bytes), version);
                if (bytes.hasRemaining()) {
                    throw new IllegalArgumentException(bytes.remaining() + " bytes are left after " + words[1]);
                }
                answers.println(converter.getMethod("write", data, short.class).invoke(null, message, version));
            }
        }
    }
}
