import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;

/** Says of each certificate whose file is named in a line who shows it, as Kafka's DefaultKafkaPrincipalBuilder does. */
public class Subjects {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader files = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (String file = files.readLine(); file != null; file = files.readLine()) {
            try (FileInputStream in = new FileInputStream(file)) {
                X509Certificate certificate = (X509Certificate) factory.generateCertificate(in);
                out.println(certificate.getSubjectX500Principal().getName());
            }
        }
    }
}
