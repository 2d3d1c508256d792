package spec

import "encoding/json"

// Front is where a target's gateways listen and whom they let in, whatever serves behind them. It names secrets and has none.
type Front struct {
	Port        int                     `json:"port,omitempty"`
	MetricsPort int                     `json:"metrics_port,omitempty"`
	URL         string                  `json:"url,omitempty"`
	Gateway     TargetGateway           `json:"gateway,omitzero"`
	Secrets     map[string]SecretSource `json:"secrets,omitempty"`
	Vault       Vault                   `json:"vault,omitzero"`
}

// Front returns where the target's gateways listen and whom they let in.
func (s ServedTarget) Front() Front {
	port, metricsPort, url := s.place()
	return Front{Port: *port, MetricsPort: *metricsPort, URL: *url, Gateway: s.Gateway, Secrets: s.Secrets, Vault: s.Vault}
}

// Behind returns the target behind another front.
func (s ServedTarget) Behind(f Front) ServedTarget {
	port, metricsPort, url := s.place()
	*port, *metricsPort, *url = f.Port, f.MetricsPort, f.URL
	s.Gateway, s.Secrets, s.Vault = f.Gateway, f.Secrets, f.Vault
	return s
}

// Is reports whether two fronts say the same.
func (f Front) Is(other Front) bool { return alike(f, other) }

// Is reports whether two descriptions say the same, of which one may have been read from a file.
func (s ServedTarget) Is(other ServedTarget) bool { return alike(s, other) }

func alike(a, b any) bool {
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(one) == string(other)
}
