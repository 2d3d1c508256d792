// Package account counts what becomes of rows: in ledgers, one for each piece of work, and for each source file.
package account
