package spec

// SecretSource is where a secret's value comes from: exactly one of env, file and vault. The value is read only where it is needed.
type SecretSource struct {
	// Env is an environment variable of the worker.
	Env string `json:"env,omitempty" dsl:"choice"`
	// File is a file on the worker's machine; one line break at its end is not part of the secret.
	File string `json:"file,omitempty" dsl:"choice"`
	// Vault is a key in Vault's KV version 2, written mount/path#key.
	Vault string `json:"vault,omitempty" dsl:"choice"`
}

// Vault is the Vault server that `vault` secrets are read from.
type Vault struct {
	// Address of the server, such as https://vault.example.com:8200.
	Address string `json:"address"`
	// Namespace, in Vault Enterprise.
	Namespace string `json:"namespace,omitempty"`
	// Auth is how the worker authenticates.
	Auth VaultAuth `json:"auth"`
}

// VaultAuth is exactly one of token_file and kubernetes.
type VaultAuth struct {
	// TokenFile is a file with a token.
	TokenFile string `json:"token_file,omitempty" dsl:"choice"`
	// Kubernetes logs in with the pod's service account.
	Kubernetes *VaultKubernetes `json:"kubernetes,omitempty" dsl:"choice"`
}

// VaultKubernetes is Vault's Kubernetes auth method.
type VaultKubernetes struct {
	// Role in Vault.
	Role string `json:"role"`
	// Mount of the auth method. Default kubernetes.
	Mount string `json:"mount,omitempty" dsl:"default=kubernetes"`
}

// Person is who stands behind a name in `who`: exactly one of users and oidc.
type Person struct {
	// Users are user names.
	Users []string `json:"users,omitempty" dsl:"choice,single"`
	// OIDC is a group in the claims of the user's identity token.
	OIDC string `json:"oidc,omitempty" dsl:"choice"`
}

// SMTP is the mail server that notifications are sent by.
type SMTP struct {
	// Host of the server.
	Host string `json:"host"`
	// Port of the server. Default 587.
	Port int `json:"port,omitempty" dsl:"default=587,min=1,max=65535"`
	// From is the sender's address.
	From string `json:"from"`
	// User for the login; without it there is no login.
	User string `json:"user,omitempty"`
	// PasswordSecret names the secret with the password.
	PasswordSecret string `json:"password_secret,omitempty"`
	// TLS: starttls (default), tls from the first byte, or none.
	TLS string `json:"tls,omitempty" dsl:"default=starttls,enum=starttls|tls|none"`
}
