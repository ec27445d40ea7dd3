import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's command line tools, one after the other, in one process: a line with input, class and arguments each. */
public class Tools {
    /** Takes a tool back to where it was called; some catch it on the way, and complain. */
    private static final class Ended extends RuntimeException {
    }

    private static final List<Runnable> hooks = new ArrayList<>();
    private static ByteArrayOutputStream said;
    private static Integer status;
    private static byte[] output;

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        Exit.Procedure end = (number, message) -> {
            ended(number);
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split("\t");
            status = null;
            hooks.clear();
            said = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[0])));
            run(words[1], Arrays.copyOfRange(words, 2, words.length));
            answers.println(status + "\t" + Base64.getEncoder().encodeToString(output));
            answers.flush();
        }
    }

    /** The first end counts: what is said after it, by others than its hooks, would not have been said. */
    private static void ended(int number) {
        if (status == null) {
            status = number;
            hooks.forEach(Runnable::run);
            System.out.flush();
            output = said.toByteArray();
        }
    }

    private static void run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            ended(0);
        } catch (java.lang.reflect.InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                ended(1);
            }
        }
    }
}
