package script

import (
	"os"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/childenv"
)

// storeKeys are credentials of buckets that a pool has put into the environment of a node for its agent.
var storeKeys = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}

// credentials are what a user's program must never inherit: whoever holds them rules the whole namespace, or reads all secrets.
var credentials = []string{
	"SLUICE_TEMPORAL_TOKEN", "SLUICE_LABEL_KEY", "SLUICE_CODEC_KEYS", "TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA", "TEMPORAL_TLS_CLIENT_KEY_PATH",
	"VAULT_TOKEN",
}

// headerPrefix begins the variables that Temporal's client sends as headers of every call, its credentials among them.
const headerPrefix = "TEMPORAL_GRPC_META_"

func credential(variable string) bool {
	return slices.Contains(credentials, variable) || strings.HasPrefix(variable, headerPrefix)
}

// inherited is what the program gets of this process's environment.
func (s *Setup) inherited() []string {
	return Merge(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(s.Withhold, name):
			return true
		case s.Node:
			return slices.Contains(storeKeys, name)
		}
		return !childenv.Inheritable(name) && (s.State == "" || !childenv.OfStore(name))
	}), nil)
}

// note names the variables of this process that the program may expect and does not get.
func (s *Setup) note(f *Folder) string {
	if s.Node {
		return ""
	}
	withheld := childenv.Withheld(os.Environ(), strings.Join(s.Command.Command, "\n"), f.Work, func(variable string) bool {
		return credential(variable) || slices.Contains(s.Withhold, variable) ||
			slices.ContainsFunc(f.Env, func(kv string) bool { return strings.HasPrefix(kv, variable+"=") })
	})
	if len(withheld) == 0 {
		return ""
	}
	return "sluice: this program does not get " + strings.Join(withheld, ", ") + " of the worker's environment: name what it needs in `env` or `secrets` of the step\n"
}

// Merge returns base without Sluice's credentials and with vars set, sorted.
func Merge(base []string, vars map[string]string) []string {
	var env []string
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if _, replaced := vars[name]; !replaced && !credential(name) {
			env = append(env, kv)
		}
	}
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}
