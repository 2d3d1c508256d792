package spec

// Notification tells people or systems about a run: exactly one of webhook, slack and email. It never blocks the run.
type Notification struct {
	// Webhook posts JSON.
	Webhook *Webhook `json:"webhook,omitempty" dsl:"choice"`
	// Slack posts a message to an incoming webhook of Slack, or of a compatible service.
	Slack *Slack `json:"slack,omitempty" dsl:"choice"`
	// Email sends mail through the environment's `smtp`.
	Email *Email `json:"email,omitempty" dsl:"choice"`
	// On lists the events: start, hold, fail, success, rollback. Default fail, hold and rollback.
	On []string `json:"on,omitempty" dsl:"enum=start|hold|fail|success|rollback"`
}

// Webhook is where JSON is posted: exactly one of url and url_secret.
type Webhook struct {
	// URL to post to.
	URL string `json:"url,omitempty" dsl:"choice"`
	// URLSecret names the secret that holds the URL.
	URLSecret string `json:"url_secret,omitempty" dsl:"choice"`
	// SigningSecret names the secret with the key that signs the body (HMAC-SHA256).
	SigningSecret string `json:"signing_secret,omitempty"`
}

// Slack is where messages are posted: exactly one of url_secret and url.
type Slack struct {
	// URLSecret names the secret that holds the URL of the incoming webhook.
	URLSecret string `json:"url_secret,omitempty" dsl:"choice"`
	// URL is the URL of the incoming webhook, if it is not a secret.
	URL string `json:"url,omitempty" dsl:"choice"`
}

// Email is who is written to.
type Email struct {
	// To are addresses.
	To []string `json:"to" dsl:"single"`
}
