// Package account counts what becomes of rows: in a ledger for each piece of work, and for each source file.
package account
