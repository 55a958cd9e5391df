/*
 * What Kafka's StandardAuthorizer says, of ACLs and questions in a file:
 *
 *     rules  SUPER_USERS  ALLOW_EVERYONE         begins anew
 *     acl    TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION
 *     ask    PRINCIPAL HOST OPERATION TYPE NAME  -> true or false
 *     any    PRINCIPAL HOST OPERATION TYPE       -> true or false
 *     find   TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION, \N for null
 *                                                -> the numbers of the ACLs that are meant
 */

import java.io.BufferedReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class Authorizer {
    private static final class Context implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Context(String principal, String host) throws Exception {
            this.principal = SecurityUtils.parseKafkaPrincipal(principal);
            this.address = InetAddress.getByName(host);
        }

        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public KafkaPrincipal principal() { return principal; }
        public InetAddress clientAddress() { return address; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "oracle"; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] args) throws Exception {
        StandardAuthorizer authorizer = null;
        List<StandardAcl> acls = new ArrayList<>();
        boolean loaded = false;
        try (BufferedReader lines = Files.newBufferedReader(Path.of(args[0]));
             PrintStream out = new PrintStream(args[1], StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] word = line.split("\t", -1);
                if (word[0].equals("rules")) {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of(
                        "node.id", "1", "super.users", word[1],
                        "allow.everyone.if.no.acl.found", word[2]));
                    Plugin.wrapInstance(authorizer, new Metrics(), "authorizer.class.name");
                    acls = new ArrayList<>();
                    loaded = false;
                    continue;
                }
                if (word[0].equals("acl")) {
                    acls.add(new StandardAcl(
                        ResourceType.valueOf(word[1]), word[3], PatternType.valueOf(word[2]),
                        word[4], word[5], AclOperation.valueOf(word[6]),
                        AclPermissionType.valueOf(word[7])));
                    continue;
                }
                if (!loaded) {
                    Map<Uuid, StandardAcl> all = new LinkedHashMap<>();
                    for (int at = 0; at < acls.size(); at++) {
                        all.put(new Uuid(7, at + 1), acls.get(at));
                    }
                    authorizer.loadSnapshot(all);
                    authorizer.completeInitialLoad();
                    loaded = true;
                }
                if (word[0].equals("ask")) {
                    Action action = new Action(
                        AclOperation.valueOf(word[3]),
                        new ResourcePattern(
                            ResourceType.valueOf(word[4]), word[5], PatternType.LITERAL),
                        1, true, false);
                    out.println(authorizer.authorize(
                        new Context(word[1], word[2]), List.of(action)).get(0)
                        == AuthorizationResult.ALLOWED);
                } else if (word[0].equals("any")) {
                    out.println(authorizer.authorizeByResourceType(
                        new Context(word[1], word[2]), AclOperation.valueOf(word[3]),
                        ResourceType.valueOf(word[4])) == AuthorizationResult.ALLOWED);
                } else {
                    AclBindingFilter filter = new AclBindingFilter(
                        new ResourcePatternFilter(
                            ResourceType.valueOf(word[1]), given(word[3]),
                            PatternType.valueOf(word[2])),
                        new AccessControlEntryFilter(
                            given(word[4]), given(word[5]), AclOperation.valueOf(word[6]),
                            AclPermissionType.valueOf(word[7])));
                    TreeSet<Integer> found = new TreeSet<>();
                    for (AclBinding binding : authorizer.acls(filter)) {
                        found.add(acls.indexOf(StandardAcl.fromAclBinding(binding)));
                    }
                    out.println(found);
                }
            }
        }
    }

    private static String given(String word) {
        return word.equals("\\N") ? null : word;
    }
}
