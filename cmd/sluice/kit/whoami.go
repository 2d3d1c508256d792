package kit

import (
	"fmt"
	"os/user"
)

// Whoami is the person at this machine, as `who` of a pipeline names them.
func Whoami() (string, error) {
	me, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("get the name of the current user: %w", err)
	}
	return "user:" + me.Username, nil
}
