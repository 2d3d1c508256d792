package door

import (
	"context"
	"slices"

	"github.com/sluiceml/sluice/internal/fault"
)

// Check returns all that would keep Open from opening a door on this machine. No issuer is asked for its keys.
func Check(ctx context.Context, opts Options) []error {
	g := opts.Gateway
	errs := []error{safe(g)}
	if g.TLS != nil {
		_, err := readCertificate(*g.TLS, opts.Logger)
		errs = append(errs, err)
	}
	keys := &keys{secret: opts.Secret}
	for _, s := range g.Keys {
		_, err := keys.readFirst(ctx, s)
		errs = append(errs, err)
	}
	var files []string
	for _, rule := range g.JWT {
		if isRemote(rule.JWKS) || slices.Contains(files, rule.JWKS) {
			continue
		}
		files = append(files, rule.JWKS)
		_, err := openKeySet(ctx, rule.JWKS, opts.Logger)
		errs = append(errs, err)
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// unusable is the error of what somebody must change, with what to do.
func unusable(err error, help string) error {
	return fault.New(fault.Invalid, err.Error()+"\nhelp: "+help, err)
}
