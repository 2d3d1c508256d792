package runner

import (
	"os"
	"path/filepath"
)

// policy lets the job server do everything except accept connections from other machines. Beam's and Flink's servers listen on all
// interfaces, whatever host is configured, and run any command for any client. With this policy Java closes such a connection when it is
// accepted.
const policy = `grant {
  permission java.net.SocketPermission "*", "connect,resolve";
  permission java.net.SocketPermission "localhost:0-", "listen,resolve";
  permission java.net.SocketPermission "127.0.0.1:0-", "accept";
  permission java.net.SocketPermission "[::1]:0-", "accept";
  permission java.io.FilePermission "<<ALL FILES>>", "read,write,delete,execute,readlink";
  permission java.io.SerializablePermission "*";
  permission java.lang.RuntimePermission "*";
  permission java.lang.management.ManagementPermission "control";
  permission java.lang.management.ManagementPermission "monitor";
  permission java.lang.reflect.ReflectPermission "*";
  permission java.net.NetPermission "*";
  permission java.nio.file.LinkPermission "*";
  permission java.security.SecurityPermission "*";
  permission java.util.PropertyPermission "*", "read,write";
  permission java.util.logging.LoggingPermission "control";
  permission javax.management.MBeanPermission "*", "*";
  permission javax.management.MBeanServerPermission "*";
  permission javax.management.MBeanTrustPermission "*";
  permission javax.net.ssl.SSLPermission "*";
  permission javax.security.auth.AuthPermission "*";
};
`

// writePolicy writes the policy into a folder and returns the arguments that make Java enforce it. They disable Netty's native transports,
// which would bypass Java's checks.
func writePolicy(dir string) ([]string, error) {
	path := filepath.Join(dir, "java.policy")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		return nil, err
	}
	return []string{
		"-Djava.security.manager", "-Djava.security.policy==" + path,
		"-Dio.netty.transport.noNative=true", "-Dorg.apache.beam.vendor.grpc.v1p60p1.io.netty.transport.noNative=true",
		"-Dorg.apache.flink.shaded.netty4.io.netty.transport.noNative=true",
	}, nil
}
