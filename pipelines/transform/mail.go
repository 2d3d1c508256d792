package transform

import (
	"errors"
	"time"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/mail"
)

// mailReasons are the reasons for which DecodeMail rejects a row.
var mailReasons = map[error]string{
	mail.ErrNoHeader:  "no_header",
	mail.ErrBadBase64: "bad_base64",
	mail.ErrTooDeep:   "too_deep",
}

// compileDecodeMail compiles a DecodeMail, which parses raw messages.
func compileDecodeMail(c transform.DecodeMail, _ map[string]any) (rowFunc, error) {
	if c.Field == "" {
		return nil, errors.New("field: name the field that holds the raw message")
	}
	return func(r rows.Row) error {
		raw, ok := r[c.Field].(string)
		if !ok {
			return rows.Reject("not_text", "field %s is not a string", c.Field)
		}
		m, err := mail.Decode(raw)
		if err != nil {
			return rows.Reject(mailReasons[err], "%v", err)
		}
		delete(r, c.Field)
		r["subject"], r["from"], r["body"], r["content_type"] = m.Subject, m.From, m.Body, m.ContentType
		r["date"] = nil
		if !m.Date.IsZero() {
			r["date"] = m.Date.Format(time.RFC3339)
		}
		return nil
	}, nil
}
