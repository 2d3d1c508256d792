package failure

import "github.com/sluiceml/sluice/internal/secret"

// OfSecret types the error of a secret that could not be found. What Vault may answer later is infrastructure's; the rest is wrong
// until somebody changes the environment.
func OfSecret(err error) error {
	switch {
	case err == nil:
		return nil
	case secret.Temporary(err):
		return New(Infrastructure, err.Error(), nil)
	}
	return New(Invalid, err.Error(), nil)
}

// Masked is err without secrets. Temporal keeps an error's causes in history too, so one that holds any loses them.
func Masked(mask *secret.Mask, err error) error {
	if err == nil {
		return nil
	}
	if said := err.Error(); mask.Text(said) == said {
		return err
	}
	return New(TypeOf(err), mask.Text(Message(err)), nil)
}
