import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after the other in one JVM, which costs a tenth of a
 * second each where a JVM for each costs two.
 *
 * <p>Each line of stdin is a command: fields of Base64, separated by spaces, namely the class, what
 * the tool is to read from its stdin, and the arguments. For each command come a line with the exit
 * code and the sizes of the two outputs, and then the outputs.
 */
public final class Tools {
    private static final class Ended extends Error {
        Ended() {
            super("ended", null, false, false);
        }
    }

    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static int code;
    private static boolean isOver;

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        String line;
        while ((line = commands.readLine()) != null) {
            String[] fields = Arrays.stream(line.split(" ", -1))
                    .map(field -> new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8))
                    .toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            run(fields, new PrintStream(out, true), new PrintStream(err, true));
            answers.println(code + " " + out.size() + " " + err.size());
            out.writeTo(answers);
            err.writeTo(answers);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String[] fields, PrintStream out, PrintStream err) throws Exception {
        code = 0;
        isOver = false;
        System.setIn(new ByteArrayInputStream(fields[1].getBytes(StandardCharsets.UTF_8)));
        System.setOut(out);
        System.setErr(err);
        Object arguments = Arrays.copyOfRange(fields, 2, fields.length);
        try {
            Class.forName(fields[0]).getMethod("main", String[].class).invoke(null, arguments);
        } catch (InvocationTargetException thrown) {
            // What a tool does not catch ends its JVM, which says so.
            if (!isOver) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                code = 1;
            }
        }
        // What a JVM would do when it ends: the console producer flushes, for one.
        System.setOut(out);
        System.setErr(err);
        HOOKS.forEach(Runnable::run);
        HOOKS.clear();
        out.flush();
        err.flush();
    }

    /** Ends a tool as exiting would: whatever it says while it unwinds, nobody hears. */
    private static void end(int status) {
        if (!isOver) {
            code = status;
            isOver = true;
            System.out.flush();
            System.err.flush();
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        }
        throw new Ended();
    }
}
