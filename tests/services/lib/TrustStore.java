import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;

/**
 * Makes a key store of a PEM bundle, so that Java trusts what the machine's other programs trust. A JDK that was
 * installed after a company's certificate does not always know it.
 * Usage: java TrustStore.java BUNDLE STORE (its password: changeit, as is usual for a store without secrets)
 */
final class TrustStore {
    public static void main(String[] arguments) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream bundle = Files.newInputStream(Path.of(arguments[0]))) {
            int number = 0;
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(bundle)) {
                store.setCertificateEntry("certificate-" + number++, certificate);
            }
        }
        try (OutputStream out = Files.newOutputStream(Path.of(arguments[1]))) {
            store.store(out, "changeit".toCharArray());
        }
    }
}
